// One AMQP 0-9-1 connection to a broker, over librabbitmq.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>

#include "publishers/rabbitmq/amqp_message.h"
#include "publishers/rabbitmq/endpoint.h"
#include "publishers/rabbitmq/write_guard.h"
#include "relay/backends.h"

namespace outbox {

// Why something did not work, as an outcome of a publish.
struct LinkError {
  Outcome outcome = Outcome::transport;
  std::string reason;
};

// What the broker says by itself.
namespace amqp {
struct Confirm {
  std::uint64_t tag = 0;
  bool multiple = false;  // and all before
  bool taken = false;     // basic.ack; else basic.nack
};
struct Return {
  std::string id;
  std::string reason;
};
struct Blocked {
  std::string reason;  // empty: unblocked
};
// The channel or the connection is closed, or was lost: this link is of no more use.
struct Closed {
  int code = 0;  // the broker's, 0 if it said nothing
  std::string reason;
};
}  // namespace amqp
using LinkEvent = std::variant<amqp::Confirm, amqp::Return, amqp::Blocked, amqp::Closed>;

// Used by one thread. Nothing throws. The guard and the clock outlive it.
class AmqpLink {
 public:
  // Connects, logs in and opens a channel with confirms. Null, with the reason in `error`, if that
  // does not work by the deadline; a name server may take longer.
  static std::unique_ptr<AmqpLink> open(const AmqpEndpoint& endpoint, const TlsSettings& tls,
                                        Time deadline, const Clock& clock, WriteGuard& guard,
                                        LinkError& error);
  ~AmqpLink();
  AmqpLink(const AmqpLink&) = delete;
  AmqpLink& operator=(const AmqpLink&) = delete;

  // The first certificate of the broker's chain; nothing without TLS.
  std::optional<std::chrono::sys_seconds> certificates_expire() const;

  // Becomes readable when next() may have something.
  int socket() const;

  // Whether the exchange is there: asked once, on a channel of its own, since to publish to a
  // missing one would close the channel and take all that is in flight with it.
  std::optional<LinkError> find_exchange(const std::string& name, Time deadline);

  // Why the message can't be sent over this connection; empty if it can. What is wrong with it is
  // to be known before it is begun.
  std::string size_defect(const AmqpMessage& message) const;

  // Persistent and mandatory. The delivery tag is last_tag() then. After an error the link can't be
  // written to, and next() still has what was said before.
  std::optional<LinkError> publish(const AmqpMessage& message, Time deadline);
  std::uint64_t last_tag() const { return last_tag_; }

  // The next thing that the broker said; nothing if it said nothing more yet. To be
  // called at least once a second: heartbeats are sent and looked for meanwhile. A broker that
  // takes none of them for a second ends the connection.
  std::optional<LinkEvent> next();
  // Whether next() has something although the socket is not readable.
  bool has_more() const;

 private:
  struct Library;

  AmqpLink(std::unique_ptr<Library> library, const Clock& clock, WriteGuard& guard);
  std::optional<LinkError> log_in(const AmqpEndpoint& endpoint, Time deadline);
  std::optional<LinkError> open_channels();
  std::optional<LinkEvent> method_event(std::uint32_t method, void* decoded);
  std::optional<LinkEvent> content_event();

  std::unique_ptr<Library> library_;
  const Clock& clock_;
  WriteGuard& guard_;
  std::set<std::string> exchanges_;  // known to be there
  std::uint64_t last_tag_ = 0;
  // A message that was sent back comes in pieces: the method, a header, its body.
  std::optional<amqp::Return> returning_;
  std::uint64_t body_left_ = 0;
};

}  // namespace outbox
