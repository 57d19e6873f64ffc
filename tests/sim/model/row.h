// A row of the simulated outbox.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "relay/message.h"

namespace outbox::sim {

using ProcessId = std::uint64_t;  // one life of one relay; 0: nobody
using RowNumber = std::uint64_t;  // the order of the table

enum class RowKind {
  plain,
  poison,  // the broker refuses it
  unfit,   // the publisher refuses it before anything is sent
  oversized,
  defect,     // can't be turned into a message
  killer,     // takes the relay down that submits it
  future,     // has a not_before
  trigger,    // its settlement meets a trigger's error
  cursed,     // the broker fails at it each time
  misplaced,  // the broker says each time that its route is wrong
};

enum class Status { pending, failed, processed, dead };

inline const char* name_of(Status status) {
  switch (status) {
    case Status::pending:
      return "pending";
    case Status::failed:
      return "failed";
    case Status::processed:
      return "processed";
    case Status::dead:
      return "dead";
  }
  return "pending";
}

struct Row {
  RowNumber number = 0;
  RowKind kind = RowKind::plain;
  std::string id;
  std::string event_type;
  std::optional<std::string> key;
  std::string destination;
  std::vector<Header> headers;
  std::string payload;
  std::uint64_t payload_size = 0;
  Time occurred{};
  Time not_before{};

  Status status = Status::pending;
  std::uint32_t generation = 0;
  RowHistory history;  // the ages in it are filled in when the row is leased
  std::optional<Time> last_attempt;
  std::optional<Time> misconfigured_since;
  Time due{};
  LeaseId waits_since = 0;  // the turn after which the row waits for recovery; 0: it does not
  DeadReason dead_reason = DeadReason::permanent;
  std::string last_error;

  ProcessId holder = 0;
  LeaseId lease = 0;
  bool leased_alone = false;
  bool must_be_alone = false;
  std::uint32_t takeovers = 0;
  std::uint32_t crashes_alone = 0;
};

inline std::string row_id(RowNumber number) { return std::to_string(number); }
inline RowNumber row_number(const RowId& id) { return std::stoull(id); }

}  // namespace outbox::sim
