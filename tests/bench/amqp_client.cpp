#include "tests/bench/amqp_client.h"

#include <amqp_tcp_socket.h>
#include <fmt/format.h>

#include <stdexcept>

namespace outbox::bench {
namespace {

constexpr int kNoHeartbeat = 0;

amqp_table_entry_t queue_type() {
  amqp_table_entry_t entry{};
  entry.key = bytes_of("x-queue-type");
  entry.value.kind = AMQP_FIELD_KIND_UTF8;
  entry.value.value.bytes = bytes_of("quorum");
  return entry;
}

}  // namespace

amqp_bytes_t bytes_of(std::string_view text) {
  return {text.size(), const_cast<char*>(text.data())};  // the library only reads it
}

std::string text_of(amqp_bytes_t bytes) {
  return {static_cast<const char*>(bytes.bytes), bytes.len};
}

AmqpClient::AmqpClient(int port) : connection_(amqp_new_connection()) {
  amqp_socket_t* socket = amqp_tcp_socket_new(connection_);
  if (amqp_socket_open(socket, "127.0.0.1", port) != AMQP_STATUS_OK) {
    amqp_destroy_connection(connection_);
    throw std::runtime_error(fmt::format("nobody listens on port {}", port));
  }
  amqp_login(connection_, "/", AMQP_DEFAULT_MAX_CHANNELS, AMQP_DEFAULT_FRAME_SIZE, kNoHeartbeat,
             AMQP_SASL_METHOD_PLAIN, "guest", "guest");
  amqp_channel_open(connection_, kChannel);
  check("open");
}

AmqpClient::~AmqpClient() { amqp_destroy_connection(connection_); }

void AmqpClient::check(const char* what) const {
  const amqp_rpc_reply_t reply = amqp_get_rpc_reply(connection_);
  if (reply.reply_type == AMQP_RESPONSE_NORMAL) return;
  throw std::runtime_error(fmt::format("{}: {}", what, amqp_error_string2(reply.library_error)));
}

void declare_empty_queue(int port) {
  const AmqpClient client(port);
  amqp_connection_state_t connection = client.connection();
  amqp_exchange_declare(connection, kChannel, bytes_of(kExchange), bytes_of("fanout"), 0, 1, 0, 0,
                        amqp_empty_table);
  client.check("exchange.declare");
  amqp_queue_delete(connection, kChannel, bytes_of(kQueue), 0, 0);
  client.check("queue.delete");
  amqp_table_entry_t quorum = queue_type();
  amqp_queue_declare(connection, kChannel, bytes_of(kQueue), 0, 1, 0, 0, {1, &quorum});
  client.check("queue.declare");
  amqp_queue_bind(connection, kChannel, bytes_of(kQueue), bytes_of(kExchange), amqp_empty_bytes,
                  amqp_empty_table);
  client.check("queue.bind");
}

}  // namespace outbox::bench
