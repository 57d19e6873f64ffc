// What is written down about a single attempt, and about errors.
#pragma once

#include <string>

#include "relay/backends.h"
#include "relay/outbox_store.h"

namespace outbox {

// `text` without what is over 1 KiB, cut between two characters.
std::string shortened(const std::string& text);

// Whether an attempt with this end is recorded. Inline, since it is asked for each row.
inline bool is_kept(const Settlement& settlement, AttemptsKept kept) {
  if (kept == AttemptsKept::none || settlement.verdict == Verdict::released) return false;
  if (settlement.verdict == Verdict::delivered) return kept == AttemptsKept::all;
  // What was turned away without being sent or counted is none: a held destination would fill the
  // table.
  return settlement.attempted || settlement.charge > 0 || settlement.verdict == Verdict::dead;
}

// The record's outcome, and its reason of at most 1 KiB.
std::string outcome_of(const Settlement& settlement);
std::string reason_of(const Settlement& settlement);

}  // namespace outbox
