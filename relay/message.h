// A leased row of the outbox, as the relay and the publishers see it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "relay/clock.h"

namespace outbox {

// The store's own handle of a row: opaque here, stable for the row's life. Not the event's id.
using RowId = std::string;

// A fencing epoch: each leasing turn on an outbox gets a higher one than any before it, whoever
// takes the turn. 0 is no lease.
using LeaseId = std::uint64_t;

// Why an attempt did not end in a confirmation (behaviour: "Outcomes of a publish").
enum class FailureKind {
  none,
  transport,        // refused, reset, time-out, 5xx, answer lost
  throttled,        // the broker asked to wait
  misconfigured,    // credentials, route, exchange: an operator can mend it
  refused,          // this message can never be accepted
  conflict,         // the same idempotency key is being processed
  short_circuited,  // not sent: the circuit was open
  held,             // not sent: the destination is held, or no route matches
};

const char* name_of(FailureKind kind);

// Why a row is a dead letter. The names are part of the public contract (`dead_letter_reason`).
enum class DeadReason {
  attempts_exhausted,
  permanent,
  oversized,
  invalid_row,
  misconfigured,
  crashed
};

const char* name_of(DeadReason reason);

struct Header {
  std::string name;
  std::string value;
  bool operator==(const Header&) const = default;
};

// What earlier leases of the row left behind. Ages are measured by the store's clock at lease time.
struct RowHistory {
  std::uint32_t retry_count = 0;          // failed attempts, short-circuited ones included
  std::uint32_t counted = 0;              // those that count toward death (outage guard)
  std::uint32_t misconfigured_tries = 0;  // misconfigured answers in a row
  FailureKind last_failure = FailureKind::none;
  Duration last_delay{0};                      // the wait the last failure was given
  std::optional<Duration> since_last_attempt;  // absent before the first one
  std::optional<Duration> misconfigured_for;   // since the first of those answers
  bool outcome_unknown = false;  // an earlier attempt may have been accepted: a possible duplicate
};

struct Message {
  RowId row;
  LeaseId lease = 0;
  std::uint32_t generation = 0;  // rises with each redrive; a settlement of an older one is stale

  std::string id;
  std::string event_type;
  std::optional<std::string> ordering_key;
  std::optional<std::string> destination;
  std::optional<std::string> content_type;
  std::optional<std::string> traceparent;
  std::string occurred_on;  // RFC 3339, UTC
  std::vector<Header> headers;
  std::string payload;             // empty when payload_size is over the lease request's limit
  std::uint64_t payload_size = 0;  // bytes, also when the payload was not loaded

  Duration age{0};     // since the event occurred, by the store's clock at lease time
  bool alone = false;  // leased with nothing beside it, because relays died holding it
  RowHistory history;

  // Set when the row can't be turned into a message (invalid headers, unreadable value): what is
  // wrong and where. Such a row is a dead letter, `invalid_row`; the other fields may be empty.
  std::optional<std::string> defect;
};

}  // namespace outbox
