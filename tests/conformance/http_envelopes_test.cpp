// Structured events and signatures, as they go over the wire.
#include <doctest/doctest.h>

#include <cstdint>
#include <ctime>

#include "publishers/http/signing.h"
#include "tests/conformance/http_test_support.h"

namespace outbox::testing {

namespace {

const std::string kOldKey = "whsec_dGhlIG9sZCBzZWNyZXQsIDI0IGJ5dGVz";
const std::string kNewKey = "whsec_dGhlIG5ldyBzZWNyZXQsIDI0IGJ5dGVz";

// What a receiver that holds the keys of this file expects of the request.
std::string expected_signature(const std::string& key_file, const RawRequest& request) {
  const SigningKeys read = read_signing_keys(key_file);
  REQUIRE(read.error == "");
  const WallTime time{std::chrono::seconds{std::stoll(request.header("webhook-timestamp"))}};
  return webhook_signature(read.keys, request.header("webhook-id"), time, request.body);
}

}  // namespace

TEST_CASE("a structured event is one document; the row's headers and the relay's stay outside") {
  RequestLog log;
  RawServer server(accept_all(log));
  PublisherSettings settings = http_settings(server.url());
  settings.envelope = "cloudevents-structured";
  settings.headers = {{"X-Api-Key", "k"}};
  HttpSender sender(settings);
  Message message = make_message("one");
  message.ordering_key = "order-42";
  message.content_type = "application/vnd.order+json";
  message.payload = R"({"n": 1.0})";
  Publication publication = publication_of(message, 1);
  publication.attempt = 2;
  REQUIRE(sender.publish(publication).outcome == Outcome::confirmed);
  const RawRequest request = log.all().at(0);
  CHECK(request.header("Content-Type") == "application/cloudevents+json");
  CHECK(request.header("Idempotency-Key") == "one");
  CHECK(request.header("Outbox-Attempt") == "2");
  CHECK(request.header("traceparent") == *message.traceparent);
  CHECK(request.header("X-Tenant") == "acme");
  CHECK(request.header("X-Api-Key") == "k");
  for (const auto& [name, value] : request.headers) CHECK_FALSE(name.starts_with("ce-"));
  CHECK(request.body ==
        R"({"specversion":"1.0","id":"one","type":"order.created","source":"/test/outbox",)"
        R"("time":"2024-05-06T07:08:09.123Z","subject":"order-42","traceparent":")" +
            *message.traceparent +
            R"(","datacontenttype":"application/vnd.order+json","data":{"n": 1.0}})");
}

TEST_CASE("a row that is no event is refused unsent in structured mode, too") {
  RequestLog log;
  RawServer server(accept_all(log));
  PublisherSettings settings = http_settings(server.url());
  settings.envelope = "cloudevents-structured";
  HttpSender sender(settings);
  const auto refused = [&](auto change) {
    Message message = make_message("one");
    change(message);
    const Receipt receipt = sender.publish(message);
    CHECK(receipt.outcome == Outcome::refused);
    CHECK_FALSE(receipt.sent);
    return receipt.reason;
  };
  CHECK(contains(refused([](Message& m) { m.event_type.clear(); }), "event type is empty"));
  CHECK(contains(refused([](Message& m) { m.event_type = "\xC3\x28"; }), "not valid UTF-8"));
  CHECK(contains(refused([](Message& m) { m.ordering_key = "a\nb"; }), "control character"));
  CHECK(contains(refused([](Message& m) { m.content_type = "json"; }), "not a media type"));
  CHECK(log.count() == 0);
}

TEST_CASE("each attempt is signed with all keys over the bytes that go out, in every envelope") {
  const TemporaryFolder folder;
  for (const char* envelope : {"cloudevents-binary", "cloudevents-structured", "raw"}) {
    CAPTURE(envelope);
    RequestLog log;
    RawServer server(accept_all(log));
    PublisherSettings settings = http_settings(server.url());
    settings.envelope = envelope;
    settings.signing_key_file = folder.write("keys", kOldKey + "\n" + kNewKey + "\n");
    HttpSender sender(settings);
    const std::int64_t before = std::time(nullptr);
    for (const std::string& payload :
         {std::string{}, std::string("\x00\xFF\r\n", 4), std::string(3 * 1024 * 1024, 'x')}) {
      Message message = make_message("one");
      message.payload = payload;
      REQUIRE(sender.publish(message).outcome == Outcome::confirmed);
      const RawRequest request = log.all().back();
      CHECK(request.header("webhook-id") == "one");
      const std::int64_t time = std::stoll(request.header("webhook-timestamp"));
      CHECK(time >= before);
      CHECK(time <= std::time(nullptr));
      const std::string signature = request.header("webhook-signature");
      CHECK(signature == expected_signature(settings.signing_key_file, request));
      CHECK(std::count(signature.begin(), signature.end(), ' ') == 1);
    }
  }
}

TEST_CASE("keys are changed while requests go out") {
  const TemporaryFolder folder;
  RequestLog log;
  RawServer server(accept_all(log));
  PublisherSettings settings = http_settings(server.url());
  settings.signing_key_file = folder.write("keys", kOldKey);
  HttpSender sender(settings);
  const auto check_signed_with = [&](const std::string& keys) {
    const std::string expected = folder.write("expected", keys);
    REQUIRE(sender.publish(make_message("one")).outcome == Outcome::confirmed);
    const RawRequest request = log.all().back();
    CHECK(request.header("webhook-signature") == expected_signature(expected, request));
  };
  check_signed_with(kOldKey);
  folder.write("keys", kOldKey + "\n" + kNewKey);
  check_signed_with(kOldKey + "\n" + kNewKey);
  folder.write("keys", "whsec_mistyped");
  check_signed_with(kOldKey + "\n" + kNewKey);
  folder.write("keys", kNewKey);
  check_signed_with(kNewKey);
  CHECK(server.connections() == 1);
}

TEST_CASE("a row whose id can't be signed is refused unsent, and only where it would be signed") {
  const TemporaryFolder folder;
  RequestLog log;
  RawServer server(accept_all(log));
  PublisherSettings settings = http_settings(server.url());
  const Message dotted = make_message("order.42");
  CHECK(HttpSender(settings).publish(dotted).outcome == Outcome::confirmed);
  CHECK(log.all().at(0).header("webhook-signature") == "(none)");
  CHECK(log.all().at(0).header("webhook-id") == "(none)");
  settings.signing_key_file = folder.write("keys", kOldKey);
  HttpSender sender(settings);
  const Receipt receipt = sender.publish(dotted);
  CHECK(receipt.outcome == Outcome::refused);
  CHECK_FALSE(receipt.sent);
  CHECK(contains(receipt.reason, "the id has a dot"));
  CHECK(sender.publish(make_message("gr\xC3\xBC\xC3\x9F")).outcome == Outcome::refused);
  CHECK(log.count() == 1);
}

TEST_CASE("without a key nothing goes out unsigned, and the file is named") {
  check_needs_file(&PublisherSettings::signing_key_file, kOldKey);
}

}  // namespace outbox::testing
