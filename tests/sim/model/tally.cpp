#include "tests/sim/model/tally.h"

#include <algorithm>

namespace outbox::sim {

std::uint64_t Tally::dead(DeadReason reason) const {
  return static_cast<std::uint64_t>(std::count_if(
      deaths.begin(), deaths.end(), [&](const Death& death) { return death.reason == reason; }));
}

Time Tally::last_first_acceptance() const {
  Time last{};
  for (const auto& [row, when] : accepted_at) last = std::max(last, when);
  return last;
}

std::optional<Time> Tally::first_acceptance_after(Time when) const {
  std::optional<Time> first;
  for (const auto& [row, accepted] : accepted_at) {
    if (accepted >= when && (!first || accepted < *first)) first = accepted;
  }
  return first;
}

void Tally::on_inserted(const Row& row) {
  ++rows;
  inserted_at[row.number] = row.occurred;
}

void Tally::on_lease_ended(const Row&, ProcessId, LeaseId, LeaseEnd how, Time) {
  takeovers += how == LeaseEnd::holder_dead || how == LeaseEnd::term_over ? 1 : 0;
}

void Tally::on_settled(const Row& row, ProcessId, const Settlement& settlement, Status, Time now) {
  charges += settlement.charge;
  if (settlement.verdict == Verdict::dead) {
    deaths.push_back({row.number, settlement.dead_reason, now});
  }
  if (settlement.kind != FailureKind::none) {
    failures.push_back({row.number, settlement.kind, settlement.delay, settlement.counts, now});
  }
}

void Tally::on_buried_by_store(const Row& row, Time now) {
  deaths.push_back({row.number, DeadReason::crashed, now});
}

void Tally::on_send(const Attempt& attempt, const Publication&, Time now) {
  ++sends;
  send_times.push_back(now);
  sends_of[attempt.row].push_back(now);
}

void Tally::on_accepted(const Attempt& attempt, std::uint64_t, Time now) {
  ++acceptances;
  if (!accepted_at.emplace(attempt.row, now).second) ++repeats;
}

void Tally::on_receipt(const Attempt&, const Receipt& receipt, Time) {
  if (!receipt.sent) return;
  failed_receipts += receipt.outcome == Outcome::transport ||
                             receipt.outcome == Outcome::throttled ||
                             receipt.outcome == Outcome::conflict
                         ? 1
                         : 0;
}

void Tally::on_circuit(ProcessId, const CircuitChange& change, Time) {
  openings += change.to == CircuitState::open && change.from == CircuitState::closed ? 1 : 0;
}

}  // namespace outbox::sim
