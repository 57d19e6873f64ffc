// What authorises requests: passwords, tokens, configured headers.
#include <doctest/doctest.h>

#include <filesystem>

#include "tests/conformance/http_test_support.h"

namespace outbox::testing {

TEST_CASE("a password and a token are read from their files without the newline") {
  const TemporaryFolder folder;
  RequestLog log;
  RawServer server(accept_all(log));
  PublisherSettings basic = http_settings(server.url());
  basic.username = "relay";
  basic.password_file = folder.write("password", "open sesame\n");
  CHECK(publish_to(basic).outcome == Outcome::confirmed);
  CHECK(log.all().back().header("Authorization") == "Basic cmVsYXk6b3BlbiBzZXNhbWU=");
  PublisherSettings bearer = http_settings(server.url());
  bearer.bearer_token_file = folder.write("token", "abc.def\n");
  CHECK(publish_to(bearer).outcome == Outcome::confirmed);
  CHECK(log.all().back().header("Authorization") == "Bearer abc.def");
}

TEST_CASE("a secret that the receiver rejects is read anew for the next attempt") {
  const TemporaryFolder folder;
  for (const int status : {401, 403}) {
    RequestLog log;
    RawServer server([&](Peer& peer) {
      RawRequest request;
      while (peer.read_request(request)) {
        log.add(request);
        peer.answer(request.header("Authorization") == "Bearer new" ? 202 : status);
      }
    });
    PublisherSettings settings = http_settings(server.url());
    settings.bearer_token_file = folder.write("token", "old-secret");
    HttpSender sender(settings);
    const Receipt rejected = sender.publish(make_message("one"));
    CHECK(rejected.outcome == Outcome::misconfigured);
    CHECK_FALSE(contains(rejected.reason, "old-secret"));
    folder.write("token", "new");
    CHECK(sender.publish(make_message("one")).outcome == Outcome::confirmed);
    CHECK(log.count() == 2);
  }
}

TEST_CASE("without its secret nothing is sent, and the file is named") {
  check_needs_file(&PublisherSettings::bearer_token_file, "here now");
}

TEST_CASE("what was read at the start stays in use at every connection when its file goes") {
  const TemporaryFolder folder;
  RequestLog log;
  RawServer server(accept_all(log));
  PublisherSettings settings = http_settings(server.url());
  settings.connections = 4;
  settings.bearer_token_file = folder.write("token", "secret");
  settings.header_files = {{"X-Api-Key", folder.write("key", "a-key")}};
  settings.signing_key_file = folder.write("keys", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n");
  HttpSender sender(settings);
  for (const char* name : {"token", "key", "keys"}) std::filesystem::remove(folder.file(name));
  for (int i = 0; i < 20; ++i) {
    CHECK(sender.publish(make_message("one")).outcome == Outcome::confirmed);
  }
  for (const RawRequest& request : log.all()) {
    CHECK(request.header("Authorization") == "Bearer secret");
    CHECK(request.header("X-Api-Key") == "a-key");
    CHECK(request.header("webhook-signature").starts_with("v1,"));
  }
}

TEST_CASE("a secret that has changed is used for the next request on the same connection") {
  const TemporaryFolder folder;
  RequestLog log;
  RawServer server(accept_all(log));
  PublisherSettings bearer = http_settings(server.url());
  bearer.bearer_token_file = folder.write("token", "first");
  PublisherSettings basic = http_settings(server.url());
  basic.username = "relay";
  basic.password_file = bearer.bearer_token_file;
  for (const PublisherSettings& settings : {bearer, basic}) {
    const std::size_t connections = server.connections();
    HttpSender sender(settings);
    const auto authorization = [&] {
      CHECK(sender.publish(make_message("one")).outcome == Outcome::confirmed);
      return log.all().back().header("Authorization");
    };
    folder.write("token", "first");
    const std::string first = authorization();
    folder.write("token", "other");
    const std::string other = authorization();
    CHECK(first != other);
    folder.write("token", "");  // being written
    CHECK(authorization() == other);
    folder.write("token", "first");
    CHECK(authorization() == first);
    CHECK(server.connections() == connections + 1);
  }
}

TEST_CASE("configured headers go with each request and a row can't replace them") {
  RequestLog log;
  RawServer server(accept_all(log));
  PublisherSettings settings = http_settings(server.url());
  settings.headers = {{"X-Api-Key", "k"}, {"Authorization", "ApiKey abc"}, {"User-Agent", "shop"}};
  HttpSender sender(settings);
  REQUIRE(sender.publish(make_message("one")).outcome == Outcome::confirmed);
  const RawRequest request = log.all().at(0);
  CHECK(request.header("X-Api-Key") == "k");
  CHECK(request.header("Authorization") == "ApiKey abc");
  CHECK(request.header("User-Agent") == "shop");
  for (const char* name : {"x-api-key", "X-API-KEY", "user-agent", "authorization"}) {
    Message message = make_message("two");
    message.headers = {{name, "forged"}};
    const Receipt receipt = sender.publish(message);
    CHECK(receipt.outcome == Outcome::refused);
    CHECK_FALSE(receipt.sent);
    CHECK(contains(receipt.reason, name));
  }
  CHECK(log.count() == 1);
}

}  // namespace outbox::testing
