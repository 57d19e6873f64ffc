// The seam to a broker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "relay/clock.h"
#include "relay/message.h"

namespace outbox {

// Names one submission of one message; never used twice by a relay.
using Ticket = std::uint64_t;

// One message to put on the wire. `message` stays alive and unchanged until its receipt was given.
struct Publication {
  Ticket ticket = 0;
  const Message* message = nullptr;
  std::string destination;  // topic, subject, path below the broker's URL; empty: the broker's own
  std::uint32_t attempt = 1;  // 1 for the first
  bool redelivered = false;   // an earlier attempt may have been accepted
  Time start_by{};            // never start later: the lease might end while it travels (P7)
};

enum class Outcome {
  confirmed,
  transport,
  throttled,
  misconfigured,
  refused,
  conflict,
  cancelled,  // given back unsent: shutdown, or start_by has passed
};

struct Receipt {
  Ticket ticket = 0;
  Outcome outcome = Outcome::cancelled;
  std::string reason;  // for last_error and the log: no payload, no response body, no secret
  bool sent = false;   // was put, or may have been put, on the wire: an attempt
  int status =
      0;  // what the broker answered, in its protocol's numbers; 0: nothing, or it has none
  bool outcome_unknown = false;  // sent, and the broker may have accepted it
  Duration took{0};              // from the start of the attempt to its outcome
  Duration wait{0};            // throttled: how long the broker asked to wait, 0 if it did not say
  std::uint64_t incident = 0;  // receipts of one lost connection share a number; 0: on its own
};

// Takes receipts from any thread. Never blocks for long and never calls back into the publisher.
class ReceiptSink {
 public:
  virtual ~ReceiptSink() = default;
  virtual void deliver(Receipt receipt) = 0;
};

// Implemented by a broker adapter. submit() is called by the relay's thread only. Nothing throws.
//
// What a publisher promises:
//  - submit() takes a prefix, never blocks, and owes exactly one receipt for each publication it
//    took: on success, refusal, disconnect, and for the rest in its destructor (cancelled if
//    unsent).
//  - An attempt ends by the publish time-out; a later outcome is not reported again.
//  - It sends the id, key, headers and payload bytes unchanged, or refuses them before anything is
//    sent; it never retries by itself.
//  - Publications of one ordering key arrive in the order of submission if the relay submits the
//    next only after the receipt of the one before.
class Publisher {
 public:
  virtual ~Publisher() = default;
  virtual std::size_t submit(std::span<const Publication> publications) = 0;

  // Gives back, as cancelled, what was taken and has not begun: the circuit has opened, or the
  // relay stops. Their receipts may come later. One that keeps no queue has nothing to give back.
  virtual void recall() = 0;
};

}  // namespace outbox
