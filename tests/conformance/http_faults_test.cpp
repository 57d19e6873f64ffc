// Receivers that misbehave, and what must not come of it.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <fstream>

#include "tests/conformance/http_test_support.h"

namespace outbox::testing {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kShort{300};
constexpr seconds kGrace{2};  // how late an attempt may end on a busy machine

// A port that takes no connection and refuses none: its backlog is full and nobody accepts.
class BlackHole {
 public:
  BlackHole() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* where = reinterpret_cast<sockaddr*>(&address);
    socklen_t length = sizeof(address);
    REQUIRE(::bind(listener_, where, length) == 0);
    REQUIRE(::listen(listener_, 0) == 0);
    REQUIRE(::getsockname(listener_, where, &length) == 0);
    port_ = ntohs(address.sin_port);
    for (bool full = false; !full;) {
      const int filler = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
      fillers_.push_back(filler);
      ::connect(filler, where, length);
      pollfd connected{filler, POLLOUT, 0};
      full = ::poll(&connected, 1, 50) == 0;
    }
  }
  ~BlackHole() {
    for (const int filler : fillers_) ::close(filler);
    ::close(listener_);
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/"; }

 private:
  int listener_;
  std::uint16_t port_ = 0;
  std::vector<int> fillers_;
};

// A free port on which nobody listens.
std::string unused_url() {
  const RawServer server([](Peer&) {});
  return server.url();
}

// The most memory that was in use since the last call of forget_peak().
std::size_t peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoul(line.substr(6)) * 1024;
  }
  FAIL("no VmHWM in /proc/self/status");
  return 0;
}

void forget_peak() {
  std::ofstream clear_refs("/proc/self/clear_refs");
  clear_refs << "5";
  clear_refs.flush();
  REQUIRE(clear_refs.good());
}

PublisherSettings impatient(const std::string& url) {
  PublisherSettings settings = http_settings(url);
  settings.publish_timeout = kShort;
  return settings;
}

// Publishes once and checks that the attempt ended in time.
Receipt publish_once(const PublisherSettings& settings) {
  const BootClock clock;
  HttpSender sender(settings);
  const Time before = clock.now();
  const Receipt receipt = sender.publish(make_message("one"));
  CHECK(clock.now() - before < settings.publish_timeout + kGrace);
  sender.close();
  CHECK(sender.receipts() == 1);
  return receipt;
}

void check_lost(const Receipt& receipt, bool outcome_unknown) {
  CAPTURE(receipt.reason);
  CHECK(receipt.outcome == Outcome::transport);
  CHECK(receipt.sent);
  CHECK(receipt.outcome_unknown == outcome_unknown);
  CHECK_FALSE(receipt.reason.empty());
}

// Reads a request, sends `start`, then `more` again and again until the client has gone.
RawServer::Serve flood(std::string start, std::string more) {
  return [start = std::move(start), more = std::move(more)](Peer& peer) {
    RawRequest request;
    if (!peer.read_request(request)) return;
    peer.send(start);
    while (peer.send(more)) {
    }
  };
}

// The same, a byte at a time.
RawServer::Serve drip(std::string start, std::string more) {
  return [start = std::move(start), more = std::move(more)](Peer& peer) {
    RawRequest request;
    if (!peer.read_request(request)) return;
    peer.send(start);
    for (std::size_t at = 0; peer.send(more.substr(at, 1)); at = (at + 1) % more.size()) {
      std::this_thread::sleep_for(milliseconds{20});  // the drip itself, not a wait for anything
    }
  };
}

// A clock that a test can move on.
class ShiftedClock final : public Clock {
 public:
  Time now() const override { return clock_.now() + Duration{shift_.load()}; }
  void advance(Duration by) { shift_ += by.count(); }

 private:
  const BootClock clock_;
  std::atomic<Duration::rep> shift_ = 0;
};

}  // namespace

TEST_CASE("a refused connection is an attempt with a known outcome") {
  const Receipt receipt = publish_once(http_settings(unused_url()));
  check_lost(receipt, false);
  CHECK(contains(receipt.reason, "Connection refused"));
}

TEST_CASE("a name that can't be resolved is an attempt with a known outcome") {
  PublisherSettings settings = impatient("http://no-such-host.invalid/");
  const Receipt receipt = publish_once(settings);
  check_lost(receipt, false);
  CHECK(contains(receipt.reason, "no-such-host.invalid"));
}

TEST_CASE("a receiver that swallows connections costs the time-out and no doubt") {
  const BlackHole hole;
  const Receipt receipt = publish_once(impatient(hole.url()));
  check_lost(receipt, false);
  CHECK(receipt.took >= kShort);
}

TEST_CASE("a receiver that never answers costs the time-out and leaves the outcome unknown") {
  RequestLog log;
  RawServer server([&](Peer& peer) {
    RawRequest request;
    if (peer.read_request(request)) log.add(request);
    peer.wait_for_close();
  });
  const Receipt receipt = publish_once(impatient(server.url()));
  check_lost(receipt, true);
  CHECK(receipt.took >= kShort);
  CHECK(log.count() == 1);
}

TEST_CASE("a receiver that reads nothing costs the time-out") {
  std::atomic<bool> done = false;
  RawServer server([&](Peer& peer) {
    RawRequest request;
    peer.read_request(request);
    peer.answer(202);
    eventually([&] { return done.load(); });
  });
  HttpSender sender(impatient(server.url()));
  Message message = make_message("one");
  REQUIRE(sender.publish(message).outcome == Outcome::confirmed);
  message.payload = std::string(32 * 1024 * 1024, 'x');
  check_lost(sender.publish(message), true);
  done = true;
}

TEST_CASE("a head that comes a byte at a time costs the time-out") {
  RawServer server(drip("", "HTTP/1.1 200 OK\r\nX-Slow: 1\r\nX-Slow: 1\r\nX-Slow: 1\r\n"));
  check_lost(publish_once(impatient(server.url())), true);
}

TEST_CASE("a body that comes a byte at a time costs the time-out, but its status counts") {
  RawServer good(drip("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", "x"));
  CHECK(publish_once(impatient(good.url())).outcome == Outcome::confirmed);
  RawServer bad(drip("HTTP/1.1 400 Bad\r\nContent-Length: 100000\r\n\r\n", "x"));
  CHECK(publish_once(impatient(bad.url())).outcome == Outcome::refused);
}

TEST_CASE("an answer of any size does not grow memory") {
  const std::string block(65536, 'a');
  const std::string chunk = "10000\r\n" + block + "\r\n";
  struct Row {
    const char* what;
    std::string start;
    std::string more;
    Outcome outcome;
  };
  std::string many_headers;
  for (int i = 0; i < 5000; ++i) many_headers += "X-Header: value\r\n";
  const std::vector<Row> table = {
      {"10 GB", "HTTP/1.1 200 OK\r\nContent-Length: 10737418240\r\n\r\n", block,
       Outcome::confirmed},
      {"chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", chunk,
       Outcome::confirmed},
      {"to the end", "HTTP/1.1 200 OK\r\n\r\n", block, Outcome::confirmed},
      {"a first line", "HTTP/1.1 200 ", block, Outcome::transport},
      {"a header", "HTTP/1.1 200 OK\r\nX-Long: ", block, Outcome::transport},
      {"headers", "HTTP/1.1 200 OK\r\n", many_headers, Outcome::transport},
      {"answers to come", "", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", Outcome::transport},
      {"one chunk size", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
       std::string(65536, 'f'), Outcome::confirmed},
  };
  for (const Row& row : table) {
    CAPTURE(row.what);
    RawServer server(flood(row.start, row.more));
    forget_peak();
    const std::size_t before = peak_bytes();
    const Receipt receipt = publish_once(http_settings(server.url()));
    CHECK(receipt.outcome == row.outcome);
    CHECK(receipt.took < seconds{2});
    CHECK(peak_bytes() < before + 4 * 1024 * 1024);
  }
}

TEST_CASE("an answer that is not HTTP is no answer") {
  for (const std::string& answer :
       {std::string("SSH-2.0-OpenSSH_9.2\r\n"), std::string("\r\n\r\n"),
        std::string("HTTP/2 200\r\n"), std::string("HTTP/1.1 2000 OK\r\n\r\n"),
        std::string("HTTP/1.1 OK\r\n\r\n"), std::string("\0\0\0\0", 4),
        std::string("HTTP/1.1 -20 OK\r\n\r\n"), std::string("HTTP/1.1 000 OK\r\n\r\n")}) {
    CAPTURE(answer);
    RawServer server([&](Peer& peer) {
      RawRequest request;
      if (peer.read_request(request)) peer.send(answer);
    });
    check_lost(publish_once(http_settings(server.url())), true);
  }
}

TEST_CASE("answers in every lawful form are understood") {
  for (const std::string& answer :
       {std::string("HTTP/1.0 200 OK\r\n\r\n"), std::string("HTTP/1.1 204\r\n\r\n"),
        std::string("HTTP/1.1 202 \r\ncontent-length: 0\r\n\r\n"),
        std::string("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
        std::string("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"),
        std::string("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nno!")}) {
    CAPTURE(answer);
    RawServer server([&](Peer& peer) {
      RawRequest request;
      if (peer.read_request(request)) peer.send(answer);
    });
    const Receipt receipt = publish_once(http_settings(server.url()));
    CAPTURE(receipt.reason);
    CHECK(receipt.outcome == Outcome::confirmed);
  }
}

TEST_CASE("answers that only say that one is to come are left out, and the connection is kept") {
  for (const std::string& interim :
       {std::string("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nLink: </b>\r\n\r\n"),
        std::string("HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n"),
        std::string("HTTP/1.1 100 Continue\r\nX-A: b\r\n\r\nHTTP/1.1 103 \r\n\r\n"),
        std::string("HTTP/1.1 199\r\n\r\n")}) {
    CAPTURE(interim);
    RequestLog log;
    RawServer server([&](Peer& peer) {
      RawRequest request;
      while (peer.read_request(request)) {
        log.add(request);
        peer.send(interim);
        peer.send("HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\nok");
      }
    });
    HttpSender sender(http_settings(server.url()));
    for (const char* id : {"one", "two"}) {
      const Receipt receipt = sender.publish(make_message(id));
      CAPTURE(receipt.reason);
      CHECK(receipt.outcome == Outcome::confirmed);
    }
    CHECK(log.count() == 2);
    CHECK(server.connections() == 1);
  }
}

TEST_CASE("answers that promise one which never comes leave the outcome unknown") {
  for (const char* answer : {"HTTP/1.1 103 Early Hints\r\n\r\n", "HTTP/1.1 102 Pro",
                             "HTTP/1.1 102 Processing\r\nX-A: b\r\n"}) {
    CAPTURE(answer);
    RawServer server([&](Peer& peer) {
      RawRequest request;
      if (peer.read_request(request)) peer.send(answer);
    });
    check_lost(publish_once(http_settings(server.url())), true);
  }
}

TEST_CASE("a connection that breaks before the answer is one attempt with an unknown outcome") {
  for (const bool with_reset : {false, true}) {
    CAPTURE(with_reset);
    RequestLog log;
    RawServer server([&](Peer& peer) {
      RawRequest request;
      if (!peer.read_request(request)) return;
      log.add(request);
      if (with_reset) peer.reset();
    });
    check_lost(publish_once(http_settings(server.url())), true);
    CHECK(log.count() == 1);
    CHECK(server.connections() == 1);
  }
}

TEST_CASE("a receiver that refuses a large body before it has read it is understood") {
  RawServer server([](Peer& peer) {
    peer.send("HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
  });
  HttpSender sender(http_settings(server.url()));
  Message message = make_message("one");
  message.payload = std::string(32 * 1024 * 1024, 'x');
  const Receipt receipt = sender.publish(message);
  CAPTURE(receipt.reason);
  CHECK(receipt.outcome == Outcome::refused);
}

TEST_CASE("an idle connection that the receiver closed is not used for a request") {
  RequestLog log;
  RawServer server([&](Peer& peer) {
    RawRequest request;
    if (!peer.read_request(request)) return;
    log.add(request);
    peer.answer(202);
  });
  HttpSender sender(http_settings(server.url()));
  for (std::size_t i = 1; i <= 20; ++i) {
    CHECK(sender.publish(make_message("one")).outcome == Outcome::confirmed);
    CHECK(log.count() == i);
    REQUIRE(eventually([&] { return server.open_connections() == 0; }));
  }
  CHECK(server.connections() == 20);
}

TEST_CASE("an answer that nobody asked for is not taken for the next one's") {
  const std::string good = "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n";
  const std::string stray = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
  for (const bool at_once : {true, false}) {
    CAPTURE(at_once);
    std::atomic<int> strays = 0;
    RequestLog log;
    RawServer server([&](Peer& peer) {
      RawRequest request;
      while (peer.read_request(request)) {
        log.add(request);
        if (log.count() > 1) {
          peer.answer(500);
          continue;
        }
        if (at_once) {
          peer.send(good + stray);
        } else {
          peer.send(good);
          peer.send(stray);
        }
        ++strays;
      }
    });
    HttpSender sender(http_settings(server.url()));
    CHECK(sender.publish(make_message("one")).outcome == Outcome::confirmed);
    REQUIRE(eventually([&] { return strays == 1; }));
    CHECK(sender.publish(make_message("two")).outcome == Outcome::transport);
    CHECK(log.count() == 2);
    CHECK(server.connections() == 2);
  }
}

TEST_CASE("a connection is kept as long as the receiver keeps it") {
  const auto connections_after = [](const std::string& headers, Duration idle) {
    RawServer server([&](Peer& peer) {
      RawRequest request;
      while (peer.read_request(request)) peer.answer(202, headers);
    });
    ShiftedClock clock;
    RecordingSink sink;
    HttpPublisher publisher(http_settings(server.url()), clock, sink);
    const Message message = make_message("one");
    for (Ticket ticket = 1; ticket <= 5; ++ticket) {
      const Publication publication = publication_of(message, ticket);
      REQUIRE(publisher.submit(std::span(&publication, 1)) == 1);
      REQUIRE(sink.wait_for(ticket));
      CHECK(sink.only(ticket).outcome == Outcome::confirmed);
      clock.advance(idle);
    }
    return server.connections();
  };
  CHECK(connections_after("", seconds{10}) == 1);
  CHECK(connections_after("", seconds{31}) == 5);
  CHECK(connections_after("Keep-Alive: timeout=10, max=100\r\n", seconds{5}) == 1);
  CHECK(connections_after("Keep-Alive: timeout=10, max=100\r\n", seconds{9}) == 5);
  CHECK(connections_after("Connection: Close\r\n", seconds{0}) == 5);
  CHECK(connections_after("Connection: close\r\n", seconds{0}) == 5);
}

TEST_CASE("a process that slept past the deadline sends nothing") {
  ShiftedClock clock;
  RequestLog log;
  std::atomic<bool> closed = false;
  RawServer server([&](Peer& peer) {
    RawRequest request;
    if (peer.read_request(request)) log.add(request);
    closed = true;
  });
  // The name is looked up between the start of the attempt and the sending, on the resolver's
  // thread.
  RecordingSink sink;
  PublisherSettings settings = http_settings(server.url());
  class SleepyClock final : public Clock {
   public:
    explicit SleepyClock(ShiftedClock& clock) : clock_(clock) {}
    // The first readings of an attempt are of its start; then the machine sleeps for an hour.
    Time now() const override {
      if (++readings_ == 4) clock_.advance(std::chrono::hours{1});
      return clock_.now();
    }

   private:
    ShiftedClock& clock_;
    mutable std::atomic<int> readings_ = 0;
  };
  const SleepyClock sleepy(clock);
  HttpPublisher publisher(settings, sleepy, sink);
  const Message message = make_message("one");
  const Publication publication = publication_of(message, 1);
  REQUIRE(publisher.submit(std::span(&publication, 1)) == 1);
  REQUIRE(sink.wait_for(1));
  check_lost(sink.only(1), false);
  CHECK(log.count() == 0);
}

}  // namespace outbox::testing
