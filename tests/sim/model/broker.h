// The broker of the simulated world: what becomes of each attempt.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "relay/publisher.h"
#include "tests/sim/model/events.h"
#include "tests/sim/model/facts.h"
#include "tests/sim/model/scenario.h"
#include "tests/sim/model/trace.h"

namespace outbox::sim {

// Decided when an attempt begins. An attempt that the sender's death interrupts goes on.
struct Fate {
  Outcome outcome = Outcome::confirmed;
  bool accepted = true;
  bool sent = true;
  bool outcome_unknown = false;
  Duration accepted_after{0};
  Duration answered_after{0};  // never later than the time-out
  Duration wait{0};
  std::string reason;
};

class Broker {
 public:
  Broker(const Scenario& scenario, EventQueue& events, Facts& facts, Trace& trace)
      : scenario_(scenario), events_(events), facts_(facts), trace_(trace) {}

  // Counts the row's attempts, from 1.
  std::uint64_t next_attempt(RowNumber row) { return ++attempts_[row]; }
  Fate decide(const Row& row, std::uint64_t attempt, Duration timeout, Time now) const;
  void accept(const Attempt& attempt, std::uint64_t fingerprint);

  void end_faults() { faults_on_ = false; }
  bool accepted(RowNumber row) const { return accepted_.contains(row); }
  std::uint64_t acceptances() const { return acceptances_; }
  std::size_t rows_accepted() const { return accepted_.size(); }

 private:
  bool meets_episode(const Row& row, Fate& fate, Duration timeout, Time now, Random& random) const;
  bool meets_attempt_fault(Fate& fate, Duration timeout, Random& random) const;
  static Fate transport(Duration after, const char* reason);
  static Fate unanswered(Duration timeout, bool accepted, Duration accepted_after);

  const Scenario& scenario_;
  EventQueue& events_;
  Facts& facts_;
  Trace& trace_;
  bool faults_on_ = true;
  std::unordered_map<RowNumber, std::uint64_t> attempts_;
  std::unordered_map<RowNumber, std::uint64_t> accepted_;
  std::uint64_t acceptances_ = 0;
};

// "d3"
std::string destination_name(std::size_t number);

}  // namespace outbox::sim
