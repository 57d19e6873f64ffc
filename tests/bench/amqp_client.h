// A connection to RabbitMQ with librabbitmq alone.
#pragma once

#include <amqp.h>

#include <string>
#include <string_view>

namespace outbox::bench {

inline constexpr amqp_channel_t kChannel = 1;
// What everything is published to, and the one quorum queue that gets it.
inline constexpr const char* kExchange = "bench";
inline constexpr const char* kQueue = "bench";

amqp_bytes_t bytes_of(std::string_view text);
std::string text_of(amqp_bytes_t bytes);

// Connected to 127.0.0.1 as guest, with one open channel. Confined to one thread. Everything throws
// std::runtime_error.
class AmqpClient {
 public:
  explicit AmqpClient(int port);
  ~AmqpClient();
  AmqpClient(const AmqpClient&) = delete;
  AmqpClient& operator=(const AmqpClient&) = delete;

  amqp_connection_state_t connection() const { return connection_; }
  int socket() const { return amqp_get_sockfd(connection_); }
  // Of the call before.
  void check(const char* what) const;

 private:
  amqp_connection_state_t connection_;
};

// An exchange with one empty quorum queue, in place of what was there.
void declare_empty_queue(int port);

}  // namespace outbox::bench
