// Hands every fact to every check, and keeps the first violation.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/model/facts.h"

namespace outbox::sim {

struct Violation {
  std::string invariant;  // "P4 duplicates", "hot loop" ...
  std::string text;
  Time when{};
};

class Court final : public Facts {
 public:
  // Not owned; outlive the court's use.
  void add(Facts& check) { checks_.push_back(&check); }

  void accuse(const char* invariant, std::string text, Time when) {
    if (muted_.contains(invariant)) return;
    if (!violation_) violation_ = Violation{invariant, std::move(text), when};
  }
  // Looks past a violation that is known, to see what else there is.
  void mute(const std::set<std::string>& invariants) { muted_ = invariants; }
  const std::optional<Violation>& violation() const { return violation_; }

  void on_inserted(const Row& row) override { tell(&Facts::on_inserted, row); }
  void on_redriven(const Row& row) override { tell(&Facts::on_redriven, row); }
  void on_faults_end(Time now) override { tell(&Facts::on_faults_end, now); }
  void on_started(ProcessId process, Time now) override { tell(&Facts::on_started, process, now); }
  void on_ended(ProcessId process, Ending how, Time now) override {
    tell(&Facts::on_ended, process, how, now);
  }
  void on_drained(ProcessId process, std::size_t left, Time now) override {
    tell(&Facts::on_drained, process, left, now);
  }
  void on_disturbed(ProcessId process, Time until) override {
    tell(&Facts::on_disturbed, process, until);
  }
  void on_step(ProcessId process, Time begin, Time end, Time next) override {
    tell(&Facts::on_step, process, begin, end, next);
  }
  void on_stimulus(ProcessId process, Time now) override {
    tell(&Facts::on_stimulus, process, now);
  }
  void on_turn_asked(ProcessId process, const TurnRequest& request, Time now) override {
    tell(&Facts::on_turn_asked, process, request, now);
  }
  void on_turn_told(ProcessId process, const TurnRequest& request, const Turn& turn, Time asked,
                    Time told) override {
    tell(&Facts::on_turn_told, process, request, turn, asked, told);
  }
  void on_leased(const Row& row, Time now) override { tell(&Facts::on_leased, row, now); }
  void on_lease_ended(const Row& row, ProcessId holder, LeaseId lease, LeaseEnd how,
                      Time now) override {
    tell(&Facts::on_lease_ended, row, holder, lease, how, now);
  }
  void on_renewed(ProcessId process, Time until, Time now) override {
    tell(&Facts::on_renewed, process, until, now);
  }
  void on_settled(const Row& row, ProcessId process, const Settlement& settlement, Status before,
                  Time now) override {
    tell(&Facts::on_settled, row, process, settlement, before, now);
  }
  void on_buried_by_store(const Row& row, Time now) override {
    tell(&Facts::on_buried_by_store, row, now);
  }
  void on_submitted(ProcessId process, const Publication& publication, RowNumber row,
                    Time now) override {
    tell(&Facts::on_submitted, process, publication, row, now);
  }
  void on_send(const Attempt& attempt, const Publication& publication, Time now) override {
    tell(&Facts::on_send, attempt, publication, now);
  }
  void on_accepted(const Attempt& attempt, std::uint64_t print, Time now) override {
    tell(&Facts::on_accepted, attempt, print, now);
  }
  void on_receipt(const Attempt& attempt, const Receipt& receipt, Time now) override {
    tell(&Facts::on_receipt, attempt, receipt, now);
  }
  void on_circuit(ProcessId process, const CircuitChange& change, Time now) override {
    tell(&Facts::on_circuit, process, change, now);
  }
  void on_short_circuit(ProcessId process, std::size_t messages, Time now) override {
    tell(&Facts::on_short_circuit, process, messages, now);
  }
  void on_confirmed(ProcessId process, RowNumber row, const std::string& destination,
                    Time now) override {
    tell(&Facts::on_confirmed, process, row, destination, now);
  }
  void on_observed_end(ProcessId process, Outcome outcome, bool sent, Time now) override {
    tell(&Facts::on_observed_end, process, outcome, sent, now);
  }
  void on_observed_burial(ProcessId process, DeadReason reason, Time now) override {
    tell(&Facts::on_observed_burial, process, reason, now);
  }
  void on_observed_turn(ProcessId process, const TurnReport& report, std::size_t leases,
                        Time now) override {
    tell(&Facts::on_observed_turn, process, report, leases, now);
  }
  void on_killed_by(const Row& row, ProcessId process, Time now) override {
    tell(&Facts::on_killed_by, row, process, now);
  }

 private:
  template <class... Taken, class... Given>
  void tell(void (Facts::*fact)(Taken...), Given&&... given) {
    for (Facts* check : checks_) (check->*fact)(given...);
  }

  std::vector<Facts*> checks_;
  std::set<std::string> muted_;
  std::optional<Violation> violation_;
};

}  // namespace outbox::sim
