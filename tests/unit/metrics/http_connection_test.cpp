#include "metrics/http_connection.h"

#include <doctest/doctest.h>
#include <sys/socket.h>

#include <array>

#include "metrics/listen_socket.h"

namespace outbox {
namespace {

Deadline in(std::chrono::milliseconds time) { return std::chrono::steady_clock::now() + time; }

struct Pair {
  Pair() {
    std::array<int, 2> ends{};
    socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data());
    near = OwnedFd(ends[0]);
    far = OwnedFd(ends[1]);
  }
  void send(const std::string& bytes) {
    REQUIRE(::send(far.get(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  }
  OwnedFd near, far;
};

TEST_CASE("a head is read to its empty line, and what follows is the next one's") {
  Pair pair;
  HttpConnection connection(pair.near.get());
  pair.send("GET /livez HTTP/1.1\r\nHost: a\r\n\r\nGET /metrics HTTP/1.1\r\n\r\nGET");
  CHECK(connection.read_head(in(std::chrono::seconds{5})) == HttpConnection::Read::complete);
  CHECK(connection.head() == "GET /livez HTTP/1.1\r\nHost: a\r\n");
  CHECK(connection.read_head(in(std::chrono::seconds{5})) == HttpConnection::Read::complete);
  CHECK(connection.head() == "GET /metrics HTTP/1.1\r\n");
  CHECK(connection.has_partial_head());
}

TEST_CASE("a head that comes byte by byte is read all the same") {
  const std::string request = "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n";
  for (std::size_t split = 1; split < request.size(); ++split) {
    CAPTURE(split);
    Pair pair;
    HttpConnection connection(pair.near.get());
    pair.send(request.substr(0, split));
    CHECK(connection.read_head(in(std::chrono::milliseconds{1})) ==
          HttpConnection::Read::timed_out);
    pair.send(request.substr(split));
    CHECK(connection.read_head(in(std::chrono::seconds{5})) == HttpConnection::Read::complete);
    CHECK(connection.head() == "GET /livez HTTP/1.1\r\nHost: a\r\n");
  }
}

TEST_CASE("a head over the limit is not read further") {
  Pair pair;
  HttpConnection connection(pair.near.get());
  pair.send("GET /" + std::string(kRequestHeadMax, 'a'));
  CHECK(connection.read_head(in(std::chrono::seconds{5})) == HttpConnection::Read::too_large);
}

TEST_CASE("a closed connection is told from a silent one") {
  Pair pair;
  HttpConnection connection(pair.near.get());
  CHECK(connection.read_head(in(std::chrono::milliseconds{10})) == HttpConnection::Read::timed_out);
  CHECK_FALSE(connection.has_partial_head());
  pair.far = OwnedFd();
  CHECK(connection.read_head(in(std::chrono::seconds{5})) == HttpConnection::Read::closed);
}

TEST_CASE("before it closes, a connection reads away what was sent") {
  Pair pair;
  HttpConnection connection(pair.near.get());
  pair.send(std::string(10'000, 'x'));
  shutdown(pair.far.get(), SHUT_WR);
  connection.drain();
  char byte = 0;
  CHECK(recv(pair.near.get(), &byte, 1, MSG_DONTWAIT) == 0);
  CHECK(recv(pair.far.get(), &byte, 1, MSG_DONTWAIT) == 0);
}

TEST_CASE("a reader that does not read is given up") {
  Pair pair;
  HttpConnection connection(pair.near.get());
  const std::string much(8 << 20, 'x');
  CHECK_FALSE(connection.send(much, in(std::chrono::milliseconds{50})));
}

TEST_CASE("requests with a body are refused by their head") {
  for (const char* header : {"Content-Length: 1", "content-length: 99999999999",
                             "Content-Length: -1", "Content-Length: 0, 5", "Content-Length: +0",
                             "Transfer-Encoding: chunked", "transfer-encoding: identity"}) {
    CAPTURE(header);
    CHECK(screen_request(std::string("POST / HTTP/1.1\r\n") + header + "\r\n").refusal == 413);
  }
  CHECK(screen_request("GET / HTTP/1.1\r\nContent-Length: 0\r\n").refusal == 0);
}

TEST_CASE("what no honest client sends is refused") {
  for (const std::string head :
       {"\r\nGET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\n folded: x\r\n", "GET / HTTP/1.1\r\nname\r\n",
        "GET / HTTP/1.1\r\nna me: x\r\n", "GET / HTTP/1.1\r\nname : x\r\n",
        "GET / HTTP/1.1\r\n: x\r\n", "GET / HTTP/1.1\r\na: b\rc: d\r\n", "GET /\n HTTP/1.1\r\n",
        "GET /\x7f HTTP/1.1\r\n"}) {
    CAPTURE(head);
    CHECK(screen_request(head).refusal == 400);
  }
  CHECK(screen_request(std::string("GET /\0 HTTP/1.1\r\n", 18)).refusal == 400);
}

TEST_CASE("too many headers are refused, the usual number is not") {
  std::string head = "GET / HTTP/1.1\r\n";
  for (int i = 0; i < 64; ++i) head += "a: b\r\n";
  CHECK(screen_request(head).refusal == 0);
  CHECK(screen_request(head + "a: b\r\n").refusal == 431);
}

TEST_CASE("a connection is kept only if both sides like to") {
  CHECK(screen_request("GET / HTTP/1.1\r\n").keep_alive);
  CHECK_FALSE(screen_request("GET / HTTP/1.0\r\n").keep_alive);
  CHECK_FALSE(screen_request("GET / HTTP/1.1\r\nConnection: close\r\n").keep_alive);
  CHECK_FALSE(screen_request("GET / HTTP/1.1\r\nCONNECTION:  Close, te\r\n").keep_alive);
}

}  // namespace
}  // namespace outbox
