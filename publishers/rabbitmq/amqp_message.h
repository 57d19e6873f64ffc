// A row as an AMQP 0-9-1 message.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "relay/backends.h"
#include "relay/publisher.h"

namespace outbox {

struct AmqpMessage {
  std::string error;  // why it can't be sent as it is; empty if it can
  std::string exchange;
  std::string routing_key;
  std::string id;
  std::string type;
  std::string content_type;
  std::string correlation_id;              // empty: none
  std::optional<std::uint64_t> timestamp;  // seconds since 1970
  std::vector<Header> headers;
  std::string document;                  // the body, if it is not the payload itself
  const std::string* payload = nullptr;  // outlives this

  std::string_view body() const { return payload != nullptr ? *payload : document; }
};

// Pure; used by one thread.
class AmqpMessageBuilder {
 public:
  // The settings have passed the check.
  explicit AmqpMessageBuilder(const PublisherSettings& settings);

  // The destination is "exchange/routing key", or a routing key for the broker's exchange; without
  // any, the event type is the routing key. The CloudEvents' attributes are headers named
  // cloudEvents_<attribute>, as the AMQP binding of CloudEvents 1.0 has it for application
  // properties. Refuses what AMQP's short strings and tables can't hold, and headers that RabbitMQ
  // would route by (CC, BCC).
  AmqpMessage build(const Publication& publication) const;

 private:
  enum class Envelope { binary, structured, raw };
  void address(const Publication& publication, AmqpMessage& message) const;
  void add_headers(const Publication& publication, AmqpMessage& message) const;
  std::string defect(const Message& row, const AmqpMessage& message) const;

  const Envelope envelope_;
  const std::string source_;
  const std::string exchange_;
};

}  // namespace outbox
