// An operator's questions and orders to the outbox, answered on a connection of their own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "relay/clock.h"
#include "relay/message.h"

namespace outbox {

// One sample of the backlog. Counting costs a scan of the unfinished rows: sample, don't poll.
struct Backlog {
  std::uint64_t pending = 0;  // not leased
  std::uint64_t failed = 0;   // not leased
  std::uint64_t leased = 0;
  std::uint64_t dead_lettered = 0;
  std::optional<Duration> oldest_age;  // of the oldest row that is neither Processed nor dead
  std::vector<std::pair<std::string, std::uint64_t>> dead_by_event_type;
};

struct DeadLetterFilter {
  std::vector<std::string> ids;  // empty: any
  std::string event_type;        // empty: any
  std::string reason;            // empty: any; else a name of DeadReason
  std::size_t limit = 1000;
};

struct DeadLetter {
  std::string id;
  std::string event_type;
  std::string ordering_key;
  std::string reason;
  std::uint32_t attempts = 0;
  std::string last_error;
  std::string occurred_on;
};

// Either a value or a sentence that says what went wrong, where, and what to do.
template <class Value>
struct Answer {
  Value value{};
  std::string error;
  bool ok() const { return error.empty(); }
};

// Implemented by a database adapter. Not thread-safe: one desk, one thread. Nothing throws.
class OutboxDesk {
 public:
  virtual ~OutboxDesk() = default;

  virtual Answer<Backlog> backlog() = 0;
  virtual Answer<std::vector<DeadLetter>> dead_letters(const DeadLetterFilter& filter) = 0;

  // Moves the matching dead letters back to Pending as a new generation and records each in the
  // audit table with the reason. Works in chunks; returns how many were moved.
  virtual Answer<std::uint64_t> redrive(const DeadLetterFilter& filter,
                                        const std::string& reason) = 0;

  // Isolates the broker's circuit until it is let go; recorded with its reason in
  // outbox_relay_brokers, read by every relay of this outbox with its next turn.
  virtual Answer<bool> hold_circuit(bool hold, const std::string& reason) = 0;
};

}  // namespace outbox
