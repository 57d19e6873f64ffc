#include "publishers/rabbitmq/amqp_link.h"

#include <amqp.h>
#include <amqp_tcp_socket.h>
#include <fmt/format.h>
#include <openssl/err.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "publishers/rabbitmq/amqp_tls.h"
#include "publishers/wire/tls_files.h"

namespace outbox {

namespace {

constexpr amqp_channel_t kPublishing = 1;
constexpr amqp_channel_t kAsking = 2;
constexpr int kHeartbeatSeconds = 10;
// The library writes them while it reads, and would wait for a broker that reads nothing.
constexpr std::chrono::seconds kHeartbeatPatience{1};
constexpr std::uint8_t kPersistent = 2;
constexpr std::uint8_t kUtf8 = AMQP_FIELD_KIND_UTF8;

amqp_bytes_t bytes_of(std::string_view text) {
  return {text.size(), const_cast<char*>(text.data())};  // the library only reads it
}

std::string text_of(amqp_bytes_t bytes) {
  return {static_cast<const char*>(bytes.bytes), bytes.len};
}

// Up to a millisecond longer: the library cuts fractions off, and would end before the time.
timeval until(Time deadline, const Clock& clock) {
  constexpr std::chrono::milliseconds kLeast{1};
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(
      std::max<Duration>(deadline - clock.now(), Duration{0}));
  const auto patience = std::chrono::microseconds(left + kLeast);
  return {.tv_sec = patience.count() / 1'000'000, .tv_usec = patience.count() % 1'000'000};
}

amqp_table_entry_t text_entry(std::string_view name, std::string_view value) {
  amqp_table_entry_t entry{};
  entry.key = bytes_of(name);
  entry.value.kind = kUtf8;
  entry.value.value.bytes = bytes_of(value);
  return entry;
}

// A call that the guard has cut off fails with whatever the library makes of that.
LinkError in_time(LinkError error, Time deadline, const Clock& clock) {
  if (error.outcome == Outcome::transport && clock.now() >= deadline) {
    error.reason = "the broker did not answer in time";
  }
  return error;
}

// A broker that misses our certificate may be gone before its alert is read.
std::string tls_reason(int status) {
  const std::string why = take_ssl_error();
  return fmt::format("TLS: {}: {}", amqp_error_string2(status),
                     why == kNoSslError ? "the broker ended the connection (one that asks for a "
                                          "certificate needs tls.certFile and tls.keyFile)"
                                        : why);
}

LinkError library_error(int status) {
  if (status == AMQP_STATUS_SSL_ERROR) return {Outcome::transport, tls_reason(status)};
  return {Outcome::transport, amqp_error_string2(status)};
}

// A short string on the wire: its length takes a byte.
std::size_t short_size(std::string_view text) { return 1 + text.size(); }

// The frame in which the properties travel: it can't be split, unlike the body.
std::size_t properties_frame_size(const AmqpMessage& message) {
  constexpr std::size_t kAround = 8;                         // type, channel, size; the end
  constexpr std::size_t kFixed = 2 + 2 + 8 + 2 + 4 + 1 + 8;  // with mode and timestamp
  std::size_t size = kAround + kFixed + short_size(message.content_type) + short_size(message.id) +
                     short_size(message.type) + short_size(message.correlation_id);
  for (const auto& [name, value] : message.headers) size += short_size(name) + 5 + value.size();
  return size;
}

// What nobody can mend by trying again: a login, a permission, a name.
Outcome outcome_of(int code) {
  switch (code) {
    case AMQP_ACCESS_REFUSED:
    case AMQP_NOT_FOUND:
    case AMQP_RESOURCE_LOCKED:
    case AMQP_PRECONDITION_FAILED:
    case AMQP_NOT_ALLOWED:
      return Outcome::misconfigured;
    default:
      return Outcome::transport;
  }
}

LinkError server_error(int code, amqp_bytes_t text) {
  return {outcome_of(code), fmt::format("{} {}", code, text_of(text))};
}

std::optional<LinkError> error_of(const amqp_rpc_reply_t& reply) {
  switch (reply.reply_type) {
    case AMQP_RESPONSE_NORMAL:
      return std::nullopt;
    case AMQP_RESPONSE_LIBRARY_EXCEPTION:
      return library_error(reply.library_error);
    case AMQP_RESPONSE_SERVER_EXCEPTION:
      if (reply.reply.id == AMQP_CONNECTION_CLOSE_METHOD) {
        const auto* close = static_cast<const amqp_connection_close_t*>(reply.reply.decoded);
        return server_error(close->reply_code, close->reply_text);
      }
      if (reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD) {
        const auto* close = static_cast<const amqp_channel_close_t*>(reply.reply.decoded);
        return server_error(close->reply_code, close->reply_text);
      }
      break;
    case AMQP_RESPONSE_NONE:
      break;
  }
  return LinkError{Outcome::transport, "the broker gave no answer"};
}

// The library says little more than that there was an error.
std::string open_reason(int status, const TlsVerdict& verdict) {
  const char* text = amqp_error_string2(status);
  switch (status) {
    case AMQP_STATUS_SOCKET_ERROR:
      return fmt::format("{}: refused, or not to be reached", text);
    case AMQP_STATUS_SSL_ERROR:
    case AMQP_STATUS_SSL_CONNECTION_FAILED:
    case AMQP_STATUS_SSL_PEER_VERIFY_FAILED:
      if (verdict.why.empty()) return tls_reason(status);
      return "TLS: the broker's certificate is not accepted: " + verdict.why;
    default:
      return text;
  }
}

}  // namespace

struct AmqpLink::Library {
  Library() : connection(amqp_new_connection()) {}
  // Without the farewell, which would wait for an answer: what is in flight has been given up.
  ~Library() {
    if (connection != nullptr) amqp_destroy_connection(connection);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  amqp_connection_state_t connection;
  TlsVerdict verdict;
};

AmqpLink::AmqpLink(std::unique_ptr<Library> library, const Clock& clock, WriteGuard& guard)
    : library_(std::move(library)), clock_(clock), guard_(guard) {}

AmqpLink::~AmqpLink() = default;

std::optional<std::chrono::sys_seconds> AmqpLink::certificates_expire() const {
  return library_->verdict.expires;
}

bool AmqpLink::has_more() const {
  return amqp_frames_enqueued(library_->connection) != 0 ||
         amqp_data_in_buffer(library_->connection) != 0;
}

int AmqpLink::socket() const { return amqp_get_sockfd(library_->connection); }

std::unique_ptr<AmqpLink> AmqpLink::open(const AmqpEndpoint& endpoint, const TlsSettings& tls,
                                         Time deadline, const Clock& clock, WriteGuard& guard,
                                         LinkError& error) {
  auto library = std::make_unique<Library>();
  amqp_connection_state_t connection = library->connection;
  error = {Outcome::transport, "out of memory"};
  if (connection == nullptr) return nullptr;
  TlsVerdict& verdict = library->verdict;
  amqp_socket_t* socket =
      endpoint.tls ? new_tls_socket(connection, tls, endpoint.host, verdict, error.reason)
                   : amqp_tcp_socket_new(connection);
  if (socket == nullptr) {
    if (endpoint.tls) error.outcome = Outcome::misconfigured;  // a file that can't be used
    return nullptr;
  }
  ERR_clear_error();
  timeval patience = until(deadline, clock);
  const int status =
      amqp_socket_open_noblock(socket, endpoint.host.c_str(), endpoint.port, &patience);
  if (status != AMQP_STATUS_OK) {
    error = in_time({Outcome::transport, open_reason(status, verdict)}, deadline, clock);
    return nullptr;
  }
  std::unique_ptr<AmqpLink> link(new AmqpLink(std::move(library), clock, guard));
  const WriteGuard::Scope scope(guard, link->socket(), deadline);
  std::optional<LinkError> problem = link->log_in(endpoint, deadline);
  if (!problem) problem = link->open_channels();
  if (!problem) return link;
  error = in_time(std::move(*problem), deadline, clock);
  return nullptr;
}

std::optional<LinkError> AmqpLink::log_in(const AmqpEndpoint& endpoint, Time deadline) {
  amqp_connection_state_t connection = library_->connection;
  const timeval patience = until(deadline, clock_);
  amqp_set_handshake_timeout(connection, &patience);
  amqp_set_rpc_timeout(connection, &patience);
  amqp_table_entry_t blocked{};
  blocked.key = bytes_of("connection.blocked");
  blocked.value.kind = AMQP_FIELD_KIND_BOOLEAN;
  blocked.value.value.boolean = 1;
  std::array<amqp_table_entry_t, 2> properties{};
  properties[0] = text_entry("connection_name", "outbox-relay");
  properties[1].key = bytes_of("capabilities");
  properties[1].value.kind = AMQP_FIELD_KIND_TABLE;
  properties[1].value.value.table = {1, &blocked};
  const amqp_table_t table{static_cast<int>(properties.size()), properties.data()};
  return error_of(amqp_login_with_properties(connection, endpoint.vhost.c_str(),
                                             AMQP_DEFAULT_MAX_CHANNELS, AMQP_DEFAULT_FRAME_SIZE,
                                             kHeartbeatSeconds, &table, AMQP_SASL_METHOD_PLAIN,
                                             endpoint.username.c_str(), endpoint.password.c_str()));
}

std::optional<LinkError> AmqpLink::open_channels() {
  amqp_connection_state_t connection = library_->connection;
  for (const amqp_channel_t channel : {kPublishing, kAsking}) {
    amqp_channel_open(connection, channel);
    if (auto error = error_of(amqp_get_rpc_reply(connection))) return error;
  }
  amqp_confirm_select(connection, kPublishing);
  return error_of(amqp_get_rpc_reply(connection));
}

std::optional<LinkError> AmqpLink::find_exchange(const std::string& name, Time deadline) {
  // The default exchange is always there, and may not be asked for.
  if (name.empty() || exchanges_.contains(name)) return std::nullopt;
  amqp_connection_state_t connection = library_->connection;
  const WriteGuard::Scope scope(guard_, socket(), deadline);
  const timeval patience = until(deadline, clock_);
  amqp_set_rpc_timeout(connection, &patience);
  amqp_exchange_declare(connection, kAsking, bytes_of(name), bytes_of("direct"), 1, 0, 0, 0,
                        amqp_empty_table);
  const amqp_rpc_reply_t reply = amqp_get_rpc_reply(connection);
  auto error = error_of(reply);
  if (!error) {
    exchanges_.insert(name);
    return std::nullopt;
  }
  const bool channel_closed = reply.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION &&
                              reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD;
  if (!channel_closed) return in_time(std::move(*error), deadline, clock_);
  amqp_channel_close_ok_t close_ok{};
  amqp_send_method(connection, kAsking, AMQP_CHANNEL_CLOSE_OK_METHOD, &close_ok);
  amqp_channel_open(connection, kAsking);
  if (auto lost = error_of(amqp_get_rpc_reply(connection))) return lost;
  error->outcome = Outcome::misconfigured;
  return error;
}

std::string AmqpLink::size_defect(const AmqpMessage& message) const {
  const auto limit = static_cast<std::size_t>(amqp_get_frame_max(library_->connection));
  const std::size_t size = properties_frame_size(message);
  if (size <= limit) return {};
  return fmt::format(
      "its headers need a frame of {} bytes, and the broker's limit (frame_max) is {}", size,
      limit);
}

std::optional<LinkError> AmqpLink::publish(const AmqpMessage& message, Time deadline) {
  amqp_basic_properties_t properties{};
  properties._flags = AMQP_BASIC_CONTENT_TYPE_FLAG | AMQP_BASIC_HEADERS_FLAG |
                      AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG |
                      AMQP_BASIC_TYPE_FLAG;
  properties.content_type = bytes_of(message.content_type);
  properties.delivery_mode = kPersistent;
  properties.message_id = bytes_of(message.id);
  properties.type = bytes_of(message.type);
  if (message.timestamp) {
    properties._flags |= AMQP_BASIC_TIMESTAMP_FLAG;
    properties.timestamp = *message.timestamp;
  }
  if (!message.correlation_id.empty()) {
    properties._flags |= AMQP_BASIC_CORRELATION_ID_FLAG;
    properties.correlation_id = bytes_of(message.correlation_id);
  }
  std::vector<amqp_table_entry_t> headers;
  headers.reserve(message.headers.size());
  for (const Header& header : message.headers) {
    headers.push_back(text_entry(header.name, header.value));
  }
  properties.headers = {static_cast<int>(headers.size()), headers.data()};
  ++last_tag_;
  const WriteGuard::Scope scope(guard_, socket(), deadline);
  const int status = amqp_basic_publish(library_->connection, kPublishing,
                                        bytes_of(message.exchange), bytes_of(message.routing_key),
                                        1, 0, &properties, bytes_of(message.body()));
  if (status != AMQP_STATUS_OK) return in_time(library_error(status), deadline, clock_);
  return std::nullopt;
}

std::optional<LinkEvent> AmqpLink::next() {
  const WriteGuard::Scope scope(guard_, socket(), clock_.now() + kHeartbeatPatience);
  while (true) {
    amqp_maybe_release_buffers(library_->connection);
    amqp_frame_t frame;
    const timeval at_once{.tv_sec = 0, .tv_usec = 0};
    const int status = amqp_simple_wait_frame_noblock(library_->connection, &frame, &at_once);
    if (status == AMQP_STATUS_TIMEOUT) return std::nullopt;
    if (status != AMQP_STATUS_OK) return amqp::Closed{0, amqp_error_string2(status)};
    std::optional<LinkEvent> event;
    if (frame.frame_type == AMQP_FRAME_METHOD) {
      event = method_event(frame.payload.method.id, frame.payload.method.decoded);
    } else if (frame.frame_type == AMQP_FRAME_HEADER && returning_) {
      const auto* properties =
          static_cast<const amqp_basic_properties_t*>(frame.payload.properties.decoded);
      if (properties->_flags & AMQP_BASIC_MESSAGE_ID_FLAG) {
        returning_->id = text_of(properties->message_id);
      }
      body_left_ = frame.payload.properties.body_size;
      event = content_event();
    } else if (frame.frame_type == AMQP_FRAME_BODY && returning_) {
      body_left_ -= std::min<std::uint64_t>(body_left_, frame.payload.body_fragment.len);
      event = content_event();
    }
    if (event) return event;
  }
}

std::optional<LinkEvent> AmqpLink::content_event() {
  if (body_left_ > 0) return std::nullopt;
  return LinkEvent(*std::exchange(returning_, std::nullopt));
}

std::optional<LinkEvent> AmqpLink::method_event(std::uint32_t method, void* decoded) {
  switch (method) {
    case AMQP_BASIC_ACK_METHOD: {
      const auto* ack = static_cast<const amqp_basic_ack_t*>(decoded);
      return amqp::Confirm{ack->delivery_tag, ack->multiple != 0, true};
    }
    case AMQP_BASIC_NACK_METHOD: {
      const auto* nack = static_cast<const amqp_basic_nack_t*>(decoded);
      return amqp::Confirm{nack->delivery_tag, nack->multiple != 0, false};
    }
    case AMQP_BASIC_RETURN_METHOD: {
      const auto* back = static_cast<const amqp_basic_return_t*>(decoded);
      returning_ = amqp::Return{{},
                                fmt::format("{} {} (exchange '{}', routing key '{}')",
                                            back->reply_code, text_of(back->reply_text),
                                            text_of(back->exchange), text_of(back->routing_key))};
      return std::nullopt;
    }
    case AMQP_CHANNEL_CLOSE_METHOD: {
      const auto* close = static_cast<const amqp_channel_close_t*>(decoded);
      return amqp::Closed{close->reply_code,
                          server_error(close->reply_code, close->reply_text).reason};
    }
    case AMQP_CONNECTION_CLOSE_METHOD: {
      const auto* close = static_cast<const amqp_connection_close_t*>(decoded);
      return amqp::Closed{close->reply_code,
                          server_error(close->reply_code, close->reply_text).reason};
    }
    case AMQP_CONNECTION_BLOCKED_METHOD: {
      const auto* blocked = static_cast<const amqp_connection_blocked_t*>(decoded);
      return amqp::Blocked{"blocked: " + text_of(blocked->reason)};
    }
    case AMQP_CONNECTION_UNBLOCKED_METHOD:
      return amqp::Blocked{};
    default:
      return std::nullopt;
  }
}

}  // namespace outbox
