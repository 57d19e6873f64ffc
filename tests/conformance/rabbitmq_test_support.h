// A real RabbitMQ server, the application's side of it, and a publisher to it.
#pragma once

#include <amqp.h>
#include <amqp_tcp_socket.h>
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "publishers/rabbitmq/rabbitmq_publisher.h"
#include "relay/app/boot_clock.h"
#include "tests/conformance/publisher_conformance.h"
#include "tests/servers/server_process.h"
#include "tests/servers/tcp_proxy.h"

namespace outbox::testing {

// One for all tests: it takes seconds to start.
inline ServerProcess& server() {
  static ServerProcess process("tests/servers/rabbitmq.py");
  return process;
}

inline std::uint16_t server_port() {
  return static_cast<std::uint16_t>(
      std::stoi(server().url().substr(server().url().rfind(':') + 1)));
}

inline amqp_bytes_t bytes_of(const std::string& text) {
  return {text.size(), const_cast<char*>(text.data())};
}

inline std::string text_of(amqp_bytes_t bytes) {
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
    settings.publish_timeout = std::chrono::seconds{5};
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

}  // namespace outbox::testing
