// The RabbitMQ publisher against a real server.
#include "publishers/rabbitmq/rabbitmq_publisher.h"

#include <amqp.h>
#include <amqp_tcp_socket.h>
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <thread>

#include "relay/app/boot_clock.h"
#include "tests/conformance/publisher_conformance.h"
#include "tests/servers/server_process.h"
#include "tests/servers/tcp_proxy.h"
#include "tests/temporary_file.h"

namespace outbox {
namespace {

using namespace testing;
using namespace std::chrono_literals;

// One for all tests: it takes seconds to start.
ServerProcess& server() {
  static ServerProcess process("tests/servers/rabbitmq.py");
  return process;
}

std::uint16_t server_port() {
  return static_cast<std::uint16_t>(
      std::stoi(server().url().substr(server().url().rfind(':') + 1)));
}

amqp_bytes_t bytes_of(const std::string& text) {
  return {text.size(), const_cast<char*>(text.data())};
}

std::string text_of(amqp_bytes_t bytes) {
  return {static_cast<const char*>(bytes.bytes), bytes.len};
}

// The application's side: declares, binds and reads, over a connection of its own.
class Consumer {
 public:
  Consumer() : connection_(amqp_new_connection()) {
    amqp_socket_t* socket = amqp_tcp_socket_new(connection_);
    if (amqp_socket_open(socket, "127.0.0.1", server_port()) != AMQP_STATUS_OK) fail("connect");
    amqp_login(connection_, "/", 0, AMQP_DEFAULT_FRAME_SIZE, 0, AMQP_SASL_METHOD_PLAIN, "guest",
               "guest");
    amqp_channel_open(connection_, 1);
    check("open");
  }
  ~Consumer() { amqp_destroy_connection(connection_); }
  Consumer(const Consumer&) = delete;
  Consumer& operator=(const Consumer&) = delete;

  void declare_exchange(const std::string& name) {
    amqp_exchange_declare(connection_, 1, bytes_of(name), bytes_of("topic"), 0, 0, 0, 0,
                          amqp_empty_table);
    check("declare the exchange");
  }
  void delete_exchange(const std::string& name) {
    amqp_exchange_delete(connection_, 1, bytes_of(name), 0);
    check("delete the exchange");
  }
  // At most `length` messages, if that is not 0; more are refused.
  void declare_queue(const std::string& name, const std::string& exchange, int length = 0) {
    const std::string limit = "x-max-length";
    const std::string overflow = "x-overflow";
    const std::string reject = "reject-publish";
    amqp_table_entry_t entries[2] = {};
    entries[0].key = bytes_of(limit);
    entries[0].value.kind = AMQP_FIELD_KIND_I32;
    entries[0].value.value.i32 = length;
    entries[1].key = bytes_of(overflow);
    entries[1].value.kind = AMQP_FIELD_KIND_UTF8;
    entries[1].value.value.bytes = bytes_of(reject);
    amqp_queue_declare(connection_, 1, bytes_of(name), 0, 0, 0, 0,
                       length == 0 ? amqp_empty_table : amqp_table_t{2, entries});
    check("declare the queue");
    bind(name, exchange);
  }
  void bind(const std::string& queue, const std::string& exchange) {
    amqp_queue_bind(connection_, 1, bytes_of(queue), bytes_of(exchange), bytes_of("#"),
                    amqp_empty_table);
    check("bind");
  }
  void unbind(const std::string& queue, const std::string& exchange) {
    amqp_queue_unbind(connection_, 1, bytes_of(queue), bytes_of(exchange), bytes_of("#"),
                      amqp_empty_table);
    check("unbind");
  }

  struct Received {
    std::string routing_key;
    std::string body;
    amqp_basic_properties_t properties{};
    std::vector<Header> headers;

    std::string header(const std::string& name) const {
      const auto found = std::ranges::find(headers, name, &Header::name);
      return found == headers.end() ? "(none)" : found->value;
    }
    std::string id;
    std::string type;
    std::string content_type;
    std::string correlation_id;
  };

  // All that the queue holds.
  std::vector<Received> drain(const std::string& queue) {
    std::vector<Received> all;
    while (true) {
      amqp_maybe_release_buffers(connection_);
      const amqp_rpc_reply_t reply = amqp_basic_get(connection_, 1, bytes_of(queue), 1);
      if (reply.reply_type != AMQP_RESPONSE_NORMAL) fail("get");
      if (reply.reply.id == AMQP_BASIC_GET_EMPTY_METHOD) return all;
      Received one;
      one.routing_key =
          text_of(static_cast<amqp_basic_get_ok_t*>(reply.reply.decoded)->routing_key);
      amqp_message_t message;
      if (amqp_read_message(connection_, 1, &message, 0).reply_type != AMQP_RESPONSE_NORMAL) {
        fail("read");
      }
      one.body = text_of(message.body);
      one.properties = message.properties;
      one.id = text_of(message.properties.message_id);
      one.type = text_of(message.properties.type);
      one.content_type = text_of(message.properties.content_type);
      if (message.properties._flags & AMQP_BASIC_CORRELATION_ID_FLAG) {
        one.correlation_id = text_of(message.properties.correlation_id);
      }
      const amqp_table_t& table = message.properties.headers;
      for (int i = 0; i < table.num_entries; ++i) {
        one.headers.push_back(
            {text_of(table.entries[i].key), text_of(table.entries[i].value.value.bytes)});
      }
      amqp_destroy_message(&message);
      all.push_back(std::move(one));
    }
  }

 private:
  void check(const char* what) {
    if (amqp_get_rpc_reply(connection_).reply_type != AMQP_RESPONSE_NORMAL) fail(what);
  }
  [[noreturn]] static void fail(const char* what) {
    throw std::runtime_error(std::string("the test's consumer could not ") + what);
  }

  amqp_connection_state_t connection_;
};

// An exchange and a queue of its own, behind a proxy.
class RabbitmqUnderTest final : public BrokerUnderTest {
 public:
  RabbitmqUnderTest() {
    static int number = 0;
    name_ = fmt::format("test-{}", ++number);
    consumer.declare_exchange(name_);
    consumer.declare_queue(name_, name_);
  }

  PublisherSettings settings() override {
    PublisherSettings settings;
    settings.url = fmt::format("amqp://127.0.0.1:{}", proxy.port());
    settings.source = "/test/outbox";
    settings.exchange = name_;
    settings.publish_timeout = 5s;
    return settings;
  }
  std::unique_ptr<Publisher> open(const PublisherSettings& settings, const Clock& clock,
                                  ReceiptSink& sink) override {
    REQUIRE(describe(check_rabbitmq_settings(settings)) == "");
    return std::make_unique<RabbitmqPublisher>(settings, clock, sink);
  }
  std::vector<Arrival> arrivals() override {
    std::vector<Arrival> arrivals;
    for (const auto& received : consumer.drain(name_)) {
      Arrival arrival;
      arrival.id = received.header("cloudEvents_id");
      arrival.event_type = received.header("cloudEvents_type");
      arrival.key = received.header("cloudEvents_subject");
      arrival.payload = received.body;
      for (const Header& header : received.headers) {
        const bool ours = header.name.starts_with("cloudEvents_") ||
                          header.name.starts_with("outbox-") || header.name == "traceparent";
        if (!ours) arrival.headers.push_back(header);
      }
      arrivals.push_back(std::move(arrival));
    }
    return arrivals;
  }
  bool stall() override {
    proxy.stall();
    return true;
  }
  void resume() override { proxy.resume(); }
  bool disconnect() override {
    proxy.close();
    return true;
  }
  bool make_unsendable(Message& message) override {
    message.id = std::string(300, 'x');
    return true;
  }

  const std::string& name() const { return name_; }

  Consumer consumer;
  TcpProxy proxy{server_port()};

 private:
  std::string name_;
};

TEST_CASE("RabbitMQ keeps what every publisher has to keep") {
  check_publisher([] { return std::make_unique<RabbitmqUnderTest>(); });
}

// A publisher with its clock and sink; publishes one message at a time.
class Sender {
 public:
  explicit Sender(const PublisherSettings& settings) : publisher_(settings, clock_, sink_) {}

  Receipt publish(const Message& message, const std::string& destination = {}) {
    submit(message, destination);
    REQUIRE(sink_.wait_for(next_ - 1));
    return sink_.only(next_ - 1);
  }
  void submit(const Message& message, const std::string& destination = {}) {
    Publication publication = publication_of(message, next_++);
    publication.destination = destination;
    REQUIRE(publisher_.submit(std::span(&publication, 1)) == 1);
  }
  RecordingSink& sink() { return sink_; }

 private:
  const BootClock clock_;
  RecordingSink sink_;
  Ticket next_ = 1;
  RabbitmqPublisher publisher_;
};

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
  const Message message = make_message("one");
  for (int i = 0; i < 20; ++i) sender.submit(message);
  std::this_thread::sleep_for(50ms);  // so that they are on the way, which nothing shows
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
  CHECK(sender.publish(make_message("three")).outcome == Outcome::confirmed);
  server().order("delete_user relay");
}

TEST_CASE("a connection that carries nothing stays up") {
  RabbitmqUnderTest broker;
  Sender sender(broker.settings());
  REQUIRE(sender.publish(make_message("one")).outcome == Outcome::confirmed);
  // Longer than the broker waits for a sign of life: two and a half times its 10 s.
  const auto until = std::chrono::steady_clock::now() + 26s;
  while (std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(1s);
  CHECK(sender.publish(make_message("two")).outcome == Outcome::confirmed);
  CHECK(broker.proxy.connections() == 1);
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
