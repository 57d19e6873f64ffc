// Somebody else's outbox table: recognising it, and beginning on it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "relay/message.h"

namespace outbox {

// A table's first relay begins with rows up to this old without asking.
constexpr std::chrono::hours kFreshAge{1};

// What is to become of the rows that are there already.
struct AdoptionOrder {
  // Rows of events before it are skipped; absent: none are.
  std::optional<std::chrono::sys_time<std::chrono::milliseconds>> since;
  bool skip_unknown = false;  // with `since`: skip those whose time is not known, too
  bool dry_run = false;
  std::string reason;  // for the audit table
};

struct AdoptionCount {
  std::uint64_t taken = 0;
  std::uint64_t skipped = 0;
  std::uint64_t unknown = 0;  // of both, rows whose time is not known
  std::uint64_t others = 0;   // neither: in a state that the relay does not know
};

// A table that looks like an outbox.
struct TableProposal {
  std::string table;
  std::string preset;
  std::vector<std::pair<std::string, std::string>> columns;  // as in store.columns: what was found
  std::string times;                                         // for store.times, if not the preset's
  std::string problem;            // why it can't be used as it stands; empty if it can
  std::uint64_t waiting = 0;      // rows that would be sent
  std::vector<Message> examples;  // the first of them, with at most the first KiB of the payload
};

}  // namespace outbox
