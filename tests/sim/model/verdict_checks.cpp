#include "tests/sim/model/verdict_checks.h"

namespace outbox::sim {
namespace {

constexpr std::uint32_t kKillsMax = 7;  // two beside others, five alone
constexpr std::uint32_t kDeathsAloneMax = 5;
constexpr Duration kProbeInterval = std::chrono::minutes{1};  // of a held destination
constexpr Duration kTolerance = std::chrono::milliseconds{5};

bool is_outage(FailureKind kind) {
  return kind == FailureKind::transport || kind == FailureKind::throttled ||
         kind == FailureKind::short_circuited;
}

bool matches(FailureKind kind, Outcome outcome) {
  switch (outcome) {
    case Outcome::transport:
      return kind == FailureKind::transport;
    case Outcome::throttled:
      return kind == FailureKind::throttled;
    case Outcome::misconfigured:
      return kind == FailureKind::misconfigured;
    case Outcome::refused:
      // While its destination is held, nothing dies for being refused.
      return kind == FailureKind::refused || kind == FailureKind::misconfigured;
    case Outcome::conflict:
      return kind == FailureKind::conflict;
    case Outcome::confirmed:
    case Outcome::cancelled:
      return false;
  }
  return false;
}

}  // namespace

void VerdictChecks::on_redriven(const Row& row) {
  rows_[row.number].kind = row.kind;
  rows_[row.number].kills = 0;
}

void VerdictChecks::on_leased(const Row& row, Time) {
  if (row.leased_alone) alone_[row.holder] = row.number;
}

void VerdictChecks::on_lease_ended(const Row& row, ProcessId holder, LeaseId, LeaseEnd, Time) {
  const auto found = alone_.find(holder);
  if (found != alone_.end() && found->second == row.number) alone_.erase(found);
}

void VerdictChecks::on_ended(ProcessId process, Ending how, Time) {
  const auto alone = alone_.find(process);
  if (alone != alone_.end() && how != Ending::clean) ++rows_[alone->second].deaths_alone;
  std::erase_if(held_, [&](const auto& entry) { return std::get<0>(entry.first) == process; });
  std::erase_if(tickets_, [&](const auto& entry) { return entry.first.first == process; });
}

void VerdictChecks::on_drained(ProcessId process, std::size_t, Time now) {
  const std::string who = "process " + std::to_string(process);
  for (const auto& [lease, held] : held_) {
    if (std::get<0>(lease) != process || held.void_) continue;
    court_.accuse(
        "P12 clean stop",
        who + " is drained and never said what became of row " + std::to_string(std::get<1>(lease)),
        now);
  }
  if (charged_unsent_[process] == turned_away_[process]) return;
  court_.accuse("retry count",
                who + " charged " + std::to_string(charged_unsent_[process]) +
                    " rows that it did not send, and reported " +
                    std::to_string(turned_away_[process]),
                now);
}

void VerdictChecks::on_turn_told(ProcessId process, const TurnRequest& request, const Turn& turn,
                                 Time asked, Time told) {
  if (turn.leases_lost) {
    for (auto& [lease, held] : held_) held.void_ |= std::get<0>(lease) == process;
  }
  if (turn.status != TurnStatus::committed) return;
  for (const Settlement& settlement : request.settlements) judge(process, settlement, told);
  for (const Message& message : turn.leased) {
    const Lease lease{process, row_number(message.row), message.lease};
    Held held;
    held.history = message.history;
    held.kind = rows_[row_number(message.row)].kind;
    held.payload_size = message.payload_size;
    held.defect = message.defect.has_value();
    held.destination = message.destination.value_or("");
    if (message.history.since_last_attempt) {
      held.last_attempt = asked - *message.history.since_last_attempt;
    }
    take_on(lease, std::move(held));
  }
}

// A row that came back while an earlier lease of it was not done with: what became of it then is
// said under the new lease.
void VerdictChecks::take_on(const Lease& lease, Held held) {
  const auto& [process, row, epoch] = lease;
  const auto earlier = held_.lower_bound({process, row, 0});
  if (earlier != held_.end() && std::get<0>(earlier->first) == process &&
      std::get<1>(earlier->first) == row && std::get<2>(earlier->first) < epoch) {
    held.ticket = earlier->second.ticket;
    held.travelling = earlier->second.travelling;
    held.receipt = earlier->second.receipt;
    held.answered = earlier->second.answered;
    held.destination = earlier->second.destination;
    if (held.ticket != 0) tickets_[{process, held.ticket}] = lease;
    held_.erase(earlier);
  }
  held_.emplace(lease, std::move(held));
}

void VerdictChecks::on_submitted(ProcessId process, const Publication& publication, RowNumber row,
                                 Time now) {
  const Lease lease{process, row, publication.message->lease};
  const std::string who = "row " + std::to_string(row) + ", process " + std::to_string(process);
  const auto found = held_.find(lease);
  if (found == held_.end() || found->second.void_) {
    court_.accuse("P6 one holder", who + ": submitted without being held", now);
    return;
  }
  Held& held = found->second;
  if (held.travelling || held.receipt) {
    court_.accuse("P4 duplicates", who + ": submitted twice under one lease", now);
  }
  if (!tickets_.emplace(std::pair{process, publication.ticket}, lease).second) {
    court_.accuse("tickets", who + ": its ticket was used before", now);
  }
  held.ticket = publication.ticket;
  held.travelling = true;
  held.destination = publication.destination;
}

void VerdictChecks::on_receipt(const Attempt& attempt, const Receipt& receipt, Time now) {
  const auto ticket = tickets_.find({attempt.process, receipt.ticket});
  if (ticket == tickets_.end()) return;
  const auto found = held_.find(ticket->second);
  if (found == held_.end()) return;
  found->second.travelling = false;
  if (receipt.outcome == Outcome::cancelled) return;
  found->second.receipt = receipt;
  found->second.answered = now;
}

void VerdictChecks::judge(ProcessId process, const Settlement& settlement, Time now) {
  const RowNumber row = row_number(settlement.row);
  const std::string who = "row " + settlement.row + ", process " + std::to_string(process) + ": ";
  const auto found = held_.find({process, row, settlement.lease});
  if (found == held_.end()) {
    court_.accuse("verdicts", who + "decided without being held, or twice", now);
    return;
  }
  const std::string wrong = wrong_with(process, settlement, found->second);
  if (!wrong.empty()) court_.accuse("verdicts", who + wrong, now);
  const std::string count = wrong_with_count(process, settlement, found->second);
  if (!count.empty()) court_.accuse("P9 bounded attempts", who + count, now);
  if (settlement.kind == FailureKind::short_circuited)
    charged_unsent_[process] += settlement.charge;
  held_.erase(found);
}

std::string VerdictChecks::wrong_with(ProcessId, const Settlement& settlement,
                                      const Held& held) const {
  if (held.travelling) return "decided while it travels";
  const bool answered = held.receipt.has_value();
  if (answered && settlement.verdict != Verdict::delivered) {
    if (held.receipt->outcome == Outcome::confirmed) return "confirmed, and not settled so";
    if (settlement.verdict != Verdict::released && settlement.attempted != held.receipt->sent) {
      return "the attempt was not recorded";
    }
  }
  switch (settlement.verdict) {
    case Verdict::delivered:
      if (!answered || held.receipt->outcome != Outcome::confirmed) {
        return "settled as delivered without a confirmation";
      }
      return {};
    case Verdict::released:
      if (answered) return "given back untouched although it was attempted";
      return settlement.charge == 0 ? "" : "charged for being given back";
    case Verdict::held:
    case Verdict::retry:
      return wrong_with_retry(settlement, held);
    case Verdict::dead:
      return wrong_with_death(settlement, held);
  }
  return {};
}

std::string VerdictChecks::wrong_with_retry(const Settlement& settlement, const Held& held) const {
  const bool sent = held.receipt.has_value();
  if (sent && !matches(settlement.kind, held.receipt->outcome)) return "another kind of failure";
  if (!sent && settlement.kind != FailureKind::short_circuited &&
      settlement.kind != FailureKind::held) {
    return "failed without having been sent";
  }
  if (settlement.outcome_unknown != (sent && held.receipt->outcome_unknown)) {
    return "whether it may have been accepted was not recorded";
  }
  const bool charged = is_outage(settlement.kind) || settlement.kind == FailureKind::conflict;
  if (charged && settlement.charge != 1) return "a failed attempt was not charged once";
  if (settlement.kind == FailureKind::held && settlement.charge != 0) return "charged while held";
  const RetryOptions& retry = scenario_.relay.retry;
  Duration most = std::max(retry.max_delay + retry.max_delay / 5,
                           scenario_.relay.misconfigured_delay_max * 6 / 5);
  most = std::max(most, kProbeInterval * 6 / 5);
  for (const Duration interval : retry.redelivery_intervals) {
    most = std::max(most, interval + interval / 10);
  }
  if (sent) most = std::max(most, held.receipt->wait);
  if (settlement.delay > most + kTolerance) return "waits longer than any rung of the ladder";
  if (settlement.delay < Duration{0}) return "due before it failed";
  return {};
}

std::string VerdictChecks::wrong_with_death(const Settlement& settlement, const Held& held) const {
  const RetryOptions& retry = scenario_.relay.retry;
  const Outcome outcome = held.receipt ? held.receipt->outcome : Outcome::cancelled;
  switch (settlement.dead_reason) {
    case DeadReason::attempts_exhausted: {
      const std::size_t most = retry.max_attempts + retry.redelivery_intervals.size();
      const std::size_t counted = held.history.counted + (settlement.counts ? 1 : 0);
      if (counted < most) return "dead before its ladder ended";
      return {};
    }
    case DeadReason::permanent:
      if ((held.kind != RowKind::poison && held.kind != RowKind::unfit) ||
          outcome != Outcome::refused)
        return "dead, and never refused";
      return {};
    case DeadReason::oversized:
      if (held.payload_size <= scenario_.relay.payload_max) return "dead, and not oversized";
      return {};
    case DeadReason::invalid_row:
      return held.defect ? "" : "dead, and without a defect";
    case DeadReason::misconfigured:
      if (held.history.misconfigured_for.value_or(Duration{0}) <
          scenario_.relay.misconfigured_life) {
        return "dead before it was misconfigured for long";
      }
      return {};
    case DeadReason::crashed:
      return "only the store may say so";
  }
  return {};
}

// The outage guard, from what the relay can know.
std::string VerdictChecks::wrong_with_count(ProcessId process, const Settlement& settlement,
                                            const Held& held) const {
  if (!settlement.counts || !scenario_.relay.retry.outage_guard) return {};
  if (scenario_.relay.charge_every_failure) return {};
  if (settlement.kind == FailureKind::short_circuited) return "a short circuit counts toward death";
  if (!is_outage(settlement.kind)) return {};
  const auto found = confirmed_.find({process, held.destination});
  if (found == confirmed_.end()) return "counts, and its destination never confirmed anything";
  const Time since = held.last_attempt.value_or(Time{}) - kTolerance;
  if (found->second.when < since) return "counts without a confirmation since its last attempt";
  const auto left = circuit_left_closed_.find(process);
  if (left != circuit_left_closed_.end() && held.last_attempt &&
      left->second > *held.last_attempt + kTolerance && left->second < held.answered) {
    return "counts although the circuit was open since its last attempt";
  }
  return {};
}

void VerdictChecks::on_buried_by_store(const Row& row, Time now) {
  // Relays that die for other reasons, again and again, while they hold only this row, look to the
  // store as if the row were to blame.
  const Subject& subject = rows_[row.number];
  if (subject.kind == RowKind::killer || subject.deaths_alone >= kDeathsAloneMax) return;
  court_.accuse("P9 quarantine",
                "row " + std::to_string(row.number) + " is innocent and was buried as crashed",
                now);
}

void VerdictChecks::on_killed_by(const Row& row, ProcessId, Time now) {
  if (has(scenario_.faults, Fault::leases_wiped)) return;  // and with them what they told
  if (++rows_[row.number].kills <= kKillsMax) return;
  court_.accuse("P9 quarantine",
                "row " + std::to_string(row.number) + " took " +
                    std::to_string(rows_[row.number].kills) + " relays down",
                now);
}

void VerdictChecks::on_circuit(ProcessId process, const CircuitChange& change, Time now) {
  if (change.from == CircuitState::closed) circuit_left_closed_[process] = now;
}

void VerdictChecks::on_short_circuit(ProcessId process, std::size_t messages, Time) {
  turned_away_[process] += messages;
}

void VerdictChecks::on_confirmed(ProcessId process, RowNumber row, const std::string& destination,
                                 Time now) {
  confirmed_[{process, destination}] = Confirmed{now, row, now};
}

}  // namespace outbox::sim
