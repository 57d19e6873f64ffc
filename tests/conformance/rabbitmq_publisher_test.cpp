// The RabbitMQ publisher against a real server.
#include <set>
#include <thread>

#include "tests/conformance/rabbitmq_test_support.h"
#include "tests/temporary_file.h"

namespace outbox {
namespace {

using namespace testing;
using namespace std::chrono_literals;

TEST_CASE("RabbitMQ keeps what every publisher has to keep") {
  check_publisher([] { return std::make_unique<RabbitmqUnderTest>(); });
}

TEST_CASE("a message has the properties that consumers look for") {
  RabbitmqUnderTest broker;
  Sender sender(broker.settings());
  Message message = make_message("one");
  message.headers.push_back({"Correlation-Id", "c-1"});
  REQUIRE(sender.publish(message).outcome == Outcome::confirmed);
  REQUIRE(sender.publish(message, "shipping.parcel").outcome == Outcome::confirmed);
  REQUIRE(sender.publish(message, "/" + broker.name()).outcome == Outcome::confirmed);
  const auto received = broker.consumer.drain(broker.name());
  REQUIRE(received.size() == 3);
  CHECK(received[0].routing_key == "order.created");
  CHECK(received[1].routing_key == "shipping.parcel");
  CHECK(received[2].routing_key == broker.name());
  CHECK(received[0].id == "one");
  CHECK(received[0].type == "order.created");
  CHECK(received[0].content_type == "application/json");
  CHECK(received[0].correlation_id == "c-1");
  CHECK(received[0].properties.delivery_mode == 2);
  CHECK(received[0].properties.timestamp == 1714979289);
  CHECK(received[0].header("cloudEvents_specversion") == "1.0");
  CHECK(received[0].header("cloudEvents_source") == "/test/outbox");
  CHECK(received[0].header("outbox-attempt") == "1");
}

TEST_CASE("a structured event is one document, a raw one the payload alone") {
  RabbitmqUnderTest broker;
  PublisherSettings settings = broker.settings();
  settings.envelope = "cloudevents-structured";
  REQUIRE(Sender(settings).publish(make_message("one")).outcome == Outcome::confirmed);
  settings.envelope = "raw";
  REQUIRE(Sender(settings).publish(make_message("two")).outcome == Outcome::confirmed);
  const auto received = broker.consumer.drain(broker.name());
  REQUIRE(received.size() == 2);
  CHECK(received[0].content_type == "application/cloudevents+json");
  CHECK(received[0].body.find("\"specversion\":\"1.0\"") != std::string::npos);
  CHECK(received[1].body == make_message("two").payload);
  CHECK(received[1].header("cloudEvents_id") == "(none)");
}

TEST_CASE("what no queue is bound for is misconfigured, although the broker acks it") {
  RabbitmqUnderTest broker;
  Sender sender(broker.settings());
  broker.consumer.unbind(broker.name(), broker.name());
  const Receipt receipt = sender.publish(make_message("one"));
  CHECK(receipt.outcome == Outcome::misconfigured);
  CHECK(receipt.sent);
  CHECK_FALSE(receipt.outcome_unknown);
  CHECK(receipt.reason.find("NO_ROUTE") != std::string::npos);
  CHECK(receipt.reason.find(broker.name()) != std::string::npos);
  broker.consumer.bind(broker.name(), broker.name());
  CHECK(sender.publish(make_message("two")).outcome == Outcome::confirmed);
  CHECK(broker.proxy.connections() == 1);
}

TEST_CASE("an exchange that is not there holds up nobody else") {
  RabbitmqUnderTest broker;
  Sender sender(broker.settings());
  const Message message = make_message("one");
  for (int i = 0; i < 30; ++i) sender.submit(message, i % 3 == 0 ? "no-such-exchange/k" : "");
  REQUIRE(sender.sink().wait_for(30));
  for (const Receipt& receipt : sender.sink().receipts()) {
    CAPTURE(receipt.reason);
    const bool lost = receipt.ticket % 3 == 1;
    CHECK(receipt.outcome == (lost ? Outcome::misconfigured : Outcome::confirmed));
    if (lost) CHECK(receipt.reason.find("no exchange 'no-such-exchange'") != std::string::npos);
  }
  CHECK(broker.proxy.connections() == 1);
}

TEST_CASE("an exchange that is deleted under way is told, and used again when it is back") {
  RabbitmqUnderTest broker;
  Sender sender(broker.settings());
  REQUIRE(sender.publish(make_message("one")).outcome == Outcome::confirmed);
  broker.consumer.delete_exchange(broker.name());
  const Receipt first = sender.publish(make_message("two"));
  CHECK(first.outcome == Outcome::misconfigured);
  CHECK(first.reason.find("NOT_FOUND") != std::string::npos);
  CHECK(sender.publish(make_message("three")).outcome == Outcome::misconfigured);
  broker.consumer.declare_exchange(broker.name());
  broker.consumer.bind(broker.name(), broker.name());
  CHECK(sender.publish(make_message("four")).outcome == Outcome::confirmed);
}

TEST_CASE("a queue that takes no more is a failure to be repeated") {
  RabbitmqUnderTest broker;
  const std::string small = broker.name() + "-small";
  broker.consumer.declare_exchange(small);
  broker.consumer.declare_queue(small, small, 2);
  Sender sender(broker.settings());
  const Message message = make_message("one");
  CHECK(sender.publish(message, small + "/k").outcome == Outcome::confirmed);
  CHECK(sender.publish(message, small + "/k").outcome == Outcome::confirmed);
  const Receipt full = sender.publish(message, small + "/k");
  CHECK(full.outcome == Outcome::transport);
  CHECK(full.reason.find("basic.nack") != std::string::npos);
  CHECK_FALSE(full.outcome_unknown);
  broker.consumer.drain(small);
  CHECK(sender.publish(message, small + "/k").outcome == Outcome::confirmed);
}

TEST_CASE("what is in flight when the connection breaks is one incident of unknown outcome") {
  RabbitmqUnderTest broker;
  Sender sender(broker.settings());
  REQUIRE(sender.publish(make_message("first")).outcome == Outcome::confirmed);
  broker.proxy.stall();
  Message message = make_message("one");
  message.payload = std::string(1000, 'x');
  for (int i = 0; i < 20; ++i) sender.submit(message);
  REQUIRE(eventually([&] { return broker.proxy.waiting() > 20 * message.payload.size(); }));
  broker.proxy.cut();
  broker.proxy.resume();
  REQUIRE(sender.sink().wait_for(21));
  const auto receipts = sender.sink().receipts();
  std::set<std::uint64_t> incidents;
  for (const Receipt& receipt : receipts) {
    if (receipt.outcome == Outcome::confirmed) continue;
    CHECK(receipt.outcome == Outcome::transport);
    CHECK(receipt.outcome_unknown);
    incidents.insert(receipt.incident);
  }
  CHECK(incidents.size() <= 1);
  CHECK(sender.publish(message).outcome == Outcome::confirmed);
}

TEST_CASE("a connection on which all that was sent ran out of time is replaced by a new one") {
  RabbitmqUnderTest broker;
  PublisherSettings settings = broker.settings();
  settings.publish_timeout = 500ms;
  Sender sender(settings);
  REQUIRE(sender.publish(make_message("one")).outcome == Outcome::confirmed);
  broker.proxy.stall();
  const Receipt lost = sender.publish(make_message("two"));
  CHECK(lost.outcome == Outcome::transport);
  CHECK(lost.outcome_unknown);
  broker.proxy.resume();
  CHECK(eventually(
      [&] { return sender.publish(make_message("three")).outcome == Outcome::confirmed; }));
  CHECK(broker.proxy.connections() > 1);
}

TEST_CASE("a broker that blocks publishers makes them wait, then is throttled, then goes on") {
  RabbitmqUnderTest broker;
  PublisherSettings settings = broker.settings();
  settings.publish_timeout = 500ms;
  Sender sender(settings);
  const Message message = make_message("one");
  REQUIRE(sender.publish(message).outcome == Outcome::confirmed);
  server().order("set_vm_memory_high_watermark 0.00001");
  const Receipt sent = sender.publish(message);
  CHECK(sent.outcome == Outcome::throttled);
  CHECK(sent.reason.find("blocked") != std::string::npos);
  const Receipt unsent = sender.publish(message);
  CHECK(unsent.outcome == Outcome::throttled);
  CHECK_FALSE(unsent.sent);
  server().order("set_vm_memory_high_watermark 0.4");
  CHECK(eventually([&] { return sender.publish(message).outcome == Outcome::confirmed; }));
}

TEST_CASE("credentials are read anew when a connection is made") {
  RabbitmqUnderTest broker;
  server().order("add_user relay first");
  server().order("set_permissions relay .* .* .*");
  TemporaryFile password("first");
  PublisherSettings settings = broker.settings();
  settings.username = "relay";
  settings.password_file = password.path();
  Sender sender(settings);
  CHECK(sender.publish(make_message("one")).outcome == Outcome::confirmed);
  server().order("change_password relay second");
  broker.proxy.cut();
  Receipt refused;
  CHECK(eventually([&] {
    refused = sender.publish(make_message("two"));
    return refused.outcome == Outcome::misconfigured;
  }));
  CHECK(refused.reason.find("ACCESS_REFUSED") != std::string::npos);
  CHECK(refused.reason.find("first") == std::string::npos);
  password.write("second");
  CHECK(eventually(
      [&] { return sender.publish(make_message("three")).outcome == Outcome::confirmed; }));
  server().order("delete_user relay");
}

TEST_CASE("a connection that carries nothing stays up") {
  RabbitmqUnderTest broker;
  Sender sender(broker.settings());
  REQUIRE(sender.publish(make_message("one")).outcome == Outcome::confirmed);
  // Longer than the broker waits for a sign of life: two and a half times its 10 s.
  const auto until = std::chrono::steady_clock::now() + 26s;
  while (std::chrono::steady_clock::now() < until) {
    REQUIRE(broker.proxy.connections() == 1);
    std::this_thread::sleep_for(1s);
  }
  CHECK(sender.publish(make_message("two")).outcome == Outcome::confirmed);
  CHECK(broker.proxy.connections() == 1);
}

TEST_CASE("what no queue is bound for goes to the exchange for such messages, if there is one") {
  RabbitmqUnderTest broker;
  const std::string lost = broker.name() + "-lost";
  PublisherSettings settings = broker.settings();
  settings.unroutable_exchange = lost;
  Sender sender(settings);
  broker.consumer.unbind(broker.name(), broker.name());
  const Receipt missing = sender.publish(make_message("one"), broker.name() + "/some.key");
  CHECK(missing.outcome == Outcome::misconfigured);
  CHECK(missing.reason.find("NOT_FOUND") != std::string::npos);

  broker.consumer.declare_exchange(lost);
  const Receipt unbound = sender.publish(make_message("two"), broker.name() + "/some.key");
  CHECK(unbound.outcome == Outcome::misconfigured);
  CHECK(unbound.reason.find("NO_ROUTE (exchange '" + lost) != std::string::npos);

  broker.consumer.declare_queue(lost, lost);
  std::vector<Message> messages;
  for (int i = 0; i < 50; ++i) messages.push_back(make_message("m" + std::to_string(i)));
  for (const Message& message : messages) sender.submit(message, broker.name() + "/some.key");
  REQUIRE(sender.sink().wait_for(52));
  const auto received = broker.consumer.drain(lost);
  CHECK(received.size() == 50);
  CHECK(received.front().id == "m0");
  broker.consumer.bind(broker.name(), broker.name());
  CHECK(sender.publish(make_message("three"), broker.name() + "/some.key").outcome ==
        Outcome::confirmed);
  CHECK(broker.consumer.drain(broker.name()).size() == 1);
  CHECK(broker.consumer.drain(lost).empty());
}

// Over TLS, past the proxy.
PublisherSettings tls_settings(RabbitmqUnderTest& broker) {
  const std::string& folder = server().words().at(2);
  PublisherSettings settings = broker.settings();
  settings.url = server().words().at(1);
  settings.tls.ca_file = folder + "/ca.pem";
  settings.tls.cert_file = folder + "/client.pem";
  settings.tls.key_file = folder + "/client.key";
  return settings;
}

TEST_CASE("a broker whose certificate is in order is spoken to over TLS") {
  RabbitmqUnderTest broker;
  Sender sender(tls_settings(broker));
  std::vector<std::string> bodies;
  for (const std::size_t size : {1u, 16384u, 300000u}) {
    Message message = make_message("one");
    message.payload = std::string(size, 'x');
    const Receipt receipt = sender.publish(message);
    CHECK(receipt.reason == "");
    REQUIRE(receipt.outcome == Outcome::confirmed);
    bodies.push_back(message.payload);
  }
  std::vector<std::string> received;
  for (const auto& one : broker.consumer.drain(broker.name())) received.push_back(one.body);
  CHECK((received == bodies));
}

TEST_CASE("a certificate may be for an address or for another name, and its end is told") {
  RabbitmqUnderTest broker;
  PublisherSettings settings = tls_settings(broker);
  std::optional<std::chrono::sys_seconds> expires;
  settings.on_certificate = [&](std::chrono::sys_seconds time) { expires = time; };
  settings.url.replace(settings.url.find("localhost"), 9, "127.0.0.1");
  CHECK(Sender(settings).publish(make_message("one")).outcome == Outcome::confirmed);
  const auto left = expires.value() - std::chrono::system_clock::now();
  CHECK(left > 24h);
  CHECK(left < 49h);
  settings.tls.server_name = "localhost";
  CHECK(Sender(settings).publish(make_message("two")).outcome == Outcome::confirmed);
}

TEST_CASE("certificate files that can't be used are found before anything starts") {
  RabbitmqUnderTest broker;
  const TemporaryFile nonsense("nonsense");
  PublisherSettings settings = tls_settings(broker);
  CHECK(describe(check_rabbitmq_settings(settings)) == "");
  settings.tls.ca_file = nonsense.path();
  CHECK(describe(check_rabbitmq_settings(settings)).find("tls.caFile") != std::string::npos);
  settings = tls_settings(broker);
  settings.tls.key_file = server().words().at(2) + "/server.key";
  CHECK(describe(check_rabbitmq_settings(settings)).find("tls.keyFile") != std::string::npos);
}

TEST_CASE("nothing is sent to a broker whose certificate is not in order") {
  RabbitmqUnderTest broker;
  const auto check_refused = [&](const PublisherSettings& settings, const std::string& why,
                                 const std::string& or_why = "") {
    Sender sender(settings);
    const Receipt receipt = sender.publish(make_message("one"));
    CAPTURE(receipt.reason);
    CHECK(receipt.outcome == Outcome::transport);
    CHECK_FALSE(receipt.outcome_unknown);
    const bool says_either = !or_why.empty() && receipt.reason.find(or_why) != std::string::npos;
    CHECK((says_either || receipt.reason.find(why) != std::string::npos));
  };
  PublisherSettings settings = tls_settings(broker);
  settings.tls.ca_file.clear();  // the system's authorities don't know it
  check_refused(settings, "certificate is not accepted: self-signed certificate");
  settings = tls_settings(broker);
  settings.tls.server_name = "elsewhere.example";
  check_refused(settings, "certificate is not accepted: hostname mismatch");
  settings.tls.server_name = "127.0.0.2";
  check_refused(settings, "certificate is not accepted: IP address mismatch");
  settings = tls_settings(broker);
  settings.tls.cert_file.clear();
  settings.tls.key_file.clear();
  // With TLS 1.3 its alert may come after it has gone.
  check_refused(settings, "alert certificate required", "one that asks for a certificate");
  CHECK(broker.consumer.drain(broker.name()).empty());
}

TEST_CASE("headers by which RabbitMQ routes are refused, and those that AMQP can't hold") {
  RabbitmqUnderTest broker;
  Sender sender(broker.settings());
  for (const Header& header : {Header{"CC", "elsewhere"}, Header{"bcc", "x"}, Header{"", "x"},
                               Header{std::string(300, 'n'), "x"}, Header{"cloudEvents_id", "x"},
                               Header{"x", std::string("\xff", 1)}}) {
    Message message = make_message("one");
    message.headers.push_back(header);
    const Receipt receipt = sender.publish(message);
    CHECK(receipt.outcome == Outcome::refused);
    CHECK_FALSE(receipt.sent);
  }
  CHECK(sender.publish(make_message("two"), std::string(300, 'k')).outcome == Outcome::refused);
  CHECK(broker.consumer.drain(broker.name()).empty());
}

}  // namespace
}  // namespace outbox
