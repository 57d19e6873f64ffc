// HTTPS.
#include <doctest/doctest.h>
#include <openssl/ssl.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>

#include "tests/conformance/http_test_support.h"

namespace outbox::testing {

namespace {

using std::chrono::milliseconds;
namespace fs = std::filesystem;

// An authority and the certificates that it signed, made with the openssl command. It expires a day
// before they do.
class Authority {
 public:
  Authority(const TemporaryFolder& folder, const std::string& name) : folder_(folder), name_(name) {
    run("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=" + name +
        " -keyout " + folder.file(name + ".key") + " -out " + file());
  }
  std::string file() const { return folder_.file(name_ + ".pem"); }

  // `names`: what the certificate is for, such as "IP:127.0.0.1,DNS:localhost".
  ServerTls issue(const std::string& name, const std::string& names) const {
    ServerTls made{folder_.file(name + ".pem"), folder_.file(name + ".key")};
    const std::string request = folder_.file(name + ".csr");
    const std::string extensions =
        folder_.write(name + ".ext", names.empty() ? "" : "subjectAltName=" + names + "\n");
    run("req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=" + name + " -keyout " +
        made.key_file + " -out " + request);
    run("x509 -req -days 3 -in " + request + " -CA " + file() + " -CAkey " +
        folder_.file(name_ + ".key") + " -CAcreateserial -extfile " + extensions + " -out " +
        made.cert_file);
    return made;
  }

 private:
  static void run(const std::string& arguments) {
    const std::string command = "openssl " + arguments + " >/dev/null 2>&1";
    REQUIRE_MESSAGE(std::system(command.c_str()) == 0, command);
  }

  const TemporaryFolder& folder_;
  const std::string name_;
};

struct TlsWorld {
  TemporaryFolder folder;
  Authority ours{folder, "ours"};
  Authority other{folder, "other"};
  ServerTls local = ours.issue("local", "IP:127.0.0.1,DNS:localhost");
  RequestLog log;

  PublisherSettings settings(const RawServer& server) const {
    PublisherSettings settings = http_settings(server.url());
    settings.tls.ca_file = ours.file();
    return settings;
  }
};

// Not sent to anybody whom we can't trust.
void check_not_trusted(const Receipt& receipt, const RequestLog& log, const std::string& why) {
  CAPTURE(receipt.reason);
  CHECK(receipt.outcome == Outcome::transport);
  CHECK(receipt.sent);
  CHECK_FALSE(receipt.outcome_unknown);
  CHECK(contains(receipt.reason, why));
  CHECK(log.count() == 0);
}

}  // namespace

TEST_CASE("a certificate of the configured authority is accepted and the connection is kept") {
  TlsWorld world;
  RawServer server(accept_all(world.log), &world.local);
  HttpSender sender(world.settings(server));
  Message message = make_message("one");
  for (const std::size_t size : {0u, 100u, 3u * 1024 * 1024}) {
    message.payload = std::string(size, 'x');
    const Receipt receipt = sender.publish(message);
    CAPTURE(receipt.reason);
    CHECK(receipt.outcome == Outcome::confirmed);
    CHECK((world.log.all().back().body == message.payload));
  }
  CHECK(server.connections() == 1);
}

TEST_CASE("a certificate of another authority is refused") {
  TlsWorld world;
  RawServer server(accept_all(world.log), &world.local);
  PublisherSettings settings = world.settings(server);
  settings.tls.ca_file = world.other.file();
  check_not_trusted(publish_to(settings), world.log, "certificate is not accepted");
  settings.tls.ca_file.clear();  // the system's authorities don't know ours either
  check_not_trusted(publish_to(settings), world.log, "certificate is not accepted");
}

TEST_CASE("a certificate for another name is refused, unless that name is asked for") {
  TlsWorld world;
  const ServerTls elsewhere = world.ours.issue("elsewhere", "DNS:events.example.com");
  RawServer server(accept_all(world.log), &elsewhere);
  PublisherSettings settings = world.settings(server);
  check_not_trusted(publish_to(settings), world.log, "IP address mismatch");
  settings.url = "https://localhost:" + std::to_string(server.port()) + "/";
  check_not_trusted(publish_to(settings), world.log, "ostname mismatch");
  settings.tls.server_name = "events.example.com";
  CHECK(publish_to(settings).outcome == Outcome::confirmed);
}

TEST_CASE("a certificate's names and not its subject decide") {
  TlsWorld world;
  const ServerTls by_subject = world.ours.issue("localhost", "DNS:unrelated.example");
  RawServer server(accept_all(world.log), &by_subject);
  PublisherSettings settings = world.settings(server);
  settings.url = "https://localhost:" + std::to_string(server.port()) + "/";
  check_not_trusted(publish_to(settings), world.log, "ostname mismatch");
}

TEST_CASE("a receiver without TLS 1.2 is refused") {
  TlsWorld world;
  ServerTls old = world.local;
  old.version_max = TLS1_1_VERSION;
  RawServer server(accept_all(world.log), &old);
  check_not_trusted(publish_to(world.settings(server)), world.log, "TLS");
}

TEST_CASE("nothing is sent in the clear to a receiver that does not speak TLS") {
  TlsWorld world;
  RawServer server(accept_all(world.log));
  PublisherSettings settings = world.settings(server);
  settings.url = "https://127.0.0.1:" + std::to_string(server.port()) + "/";
  settings.publish_timeout = milliseconds{300};  // it waits for the end of a request
  check_not_trusted(publish_to(settings), world.log, "TLS");
}

TEST_CASE("a handshake that never ends costs the time-out") {
  TlsWorld world;
  RawServer server([](Peer& peer) { peer.wait_for_close(); });
  PublisherSettings settings = world.settings(server);
  settings.url = "https://127.0.0.1:" + std::to_string(server.port()) + "/";
  settings.publish_timeout = milliseconds{200};
  const Receipt receipt = publish_to(settings);
  check_not_trusted(receipt, world.log, "in time");
  CHECK(receipt.took >= settings.publish_timeout);
  CHECK(receipt.took < settings.publish_timeout + std::chrono::seconds{2});
}

TEST_CASE("a receiver that asks for a certificate is shown ours") {
  TlsWorld world;
  ServerTls strict = world.local;
  strict.client_ca_file = world.ours.file();
  RawServer server(accept_all(world.log), &strict);
  PublisherSettings settings = world.settings(server);
  CHECK(publish_to(settings).outcome == Outcome::transport);
  CHECK(world.log.count() == 0);
  const ServerTls client = world.ours.issue("client", "");
  settings.tls.cert_file = client.cert_file;
  settings.tls.key_file = client.key_file;
  CHECK(publish_to(settings).outcome == Outcome::confirmed);
}

TEST_CASE(
    "our certificate is renewed for new connections, and the old one stays while it is half done") {
  TlsWorld world;
  ServerTls strict = world.local;
  strict.client_ca_file = world.other.file();
  RawServer server(  // one request for each connection
      [&](Peer& peer) {
        RawRequest request;
        if (!peer.read_request(request)) return;
        world.log.add(request);
        peer.answer(202, "Connection: close\r\n");
      },
      &strict);
  const ServerTls unknown = world.ours.issue("client", "");
  const ServerTls known = world.other.issue("renewed", "");
  PublisherSettings settings = world.settings(server);
  settings.tls.cert_file = world.folder.file("tls.crt");
  settings.tls.key_file = world.folder.file("tls.key");
  const auto put = [](const std::string& from, const std::string& to) {
    fs::copy_file(from, to, fs::copy_options::overwrite_existing);
  };
  put(unknown.cert_file, settings.tls.cert_file);
  put(unknown.key_file, settings.tls.key_file);
  HttpSender sender(settings);
  const Receipt rejected = sender.publish(make_message("one"));
  CHECK(rejected.outcome == Outcome::transport);
  CHECK(contains(rejected.reason, "unknown ca"));
  put(known.cert_file, settings.tls.cert_file);
  CHECK(contains(sender.publish(make_message("one")).reason, "unknown ca"));
  put(known.key_file, settings.tls.key_file);
  CHECK(sender.publish(make_message("one")).outcome == Outcome::confirmed);
  CHECK(world.log.count() == 1);
}

TEST_CASE("a key with a password, and one that is not the certificate's, are found at start") {
  TlsWorld world;
  RawServer server(accept_all(world.log), &world.local);
  PublisherSettings settings = world.settings(server);
  settings.tls.cert_file = world.local.cert_file;
  settings.tls.key_file = world.folder.file("locked.key");
  const std::string command = "openssl ec -aes256 -passout pass:hidden -in " +
                              world.local.key_file + " -out " + settings.tls.key_file +
                              " >/dev/null 2>&1";
  REQUIRE(std::system(command.c_str()) == 0);
  CHECK(contains(describe(check_http_settings(settings)), "it has a password"));
  settings.tls.key_file = world.folder.file("other.key");
  CHECK(contains(describe(check_http_settings(settings)), "mismatch"));
}

TEST_CASE("each handshake tells when the first certificate of the receiver's chain expires") {
  using std::chrono::days;
  using std::chrono::sys_seconds;
  TlsWorld world;
  RawServer server(accept_all(world.log), &world.local);
  PublisherSettings settings = world.settings(server);
  std::atomic<sys_seconds> told;
  std::atomic<int> times = 0;
  settings.on_certificate = [&](sys_seconds expires) {
    told = expires;
    ++times;
  };
  const auto now = std::chrono::system_clock::now();
  HttpSender sender(settings);
  for (int i = 0; i < 2; ++i) {
    REQUIRE(sender.publish(make_message("one")).outcome == Outcome::confirmed);
  }
  CHECK(times == 1);
  CHECK((told.load() < now + days{2}));
  CHECK((told.load() > now + days{2} - std::chrono::minutes{5}));
  settings.tls.ca_file = world.other.file();
  CHECK(publish_to(settings).outcome == Outcome::transport);
  CHECK(times == 1);
}

TEST_CASE("certificate files that change are read anew") {
  TlsWorld world;
  RawServer server(accept_all(world.log), &world.local);
  PublisherSettings settings = world.settings(server);
  settings.tls.ca_file = world.folder.file("rotated.pem");
  fs::copy_file(world.other.file(), settings.tls.ca_file);
  HttpSender sender(settings);
  CHECK(sender.publish(make_message("one")).outcome == Outcome::transport);
  fs::remove(settings.tls.ca_file);
  fs::copy_file(world.ours.file(), settings.tls.ca_file);
  CHECK(sender.publish(make_message("one")).outcome == Outcome::confirmed);
}

TEST_CASE("a TLS connection that ends in order before the answer is one request and no more") {
  TlsWorld world;
  RawServer server(
      [&](Peer& peer) {
        RawRequest request;
        if (peer.read_request(request)) world.log.add(request);
      },
      &world.local);
  const Receipt receipt = publish_to(world.settings(server));
  CHECK(receipt.outcome == Outcome::transport);
  CHECK(receipt.outcome_unknown);
  CHECK(world.log.count() == 1);
  CHECK(server.connections() == 1);
}

TEST_CASE("an idle TLS connection that the receiver closed is not used for a request") {
  TlsWorld world;
  RawServer server(
      [&](Peer& peer) {
        RawRequest request;
        if (!peer.read_request(request)) return;
        world.log.add(request);
        peer.answer(202);
      },
      &world.local);
  HttpSender sender(world.settings(server));
  for (std::size_t i = 1; i <= 5; ++i) {
    CHECK(sender.publish(make_message("one")).outcome == Outcome::confirmed);
    CHECK(world.log.count() == i);
    REQUIRE(eventually([&] { return server.open_connections() == 0; }));
  }
}

}  // namespace outbox::testing
