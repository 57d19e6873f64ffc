#include "tests/sim/model/report_checks.h"

namespace outbox::sim {

void ReportChecks::on_drained(ProcessId process, std::size_t, Time now) {
  const Account& account = accounts_[process];
  if (account.happened == account.reported) return;
  court_.accuse("reports",
                "process " + std::to_string(process) +
                    " did not report each outcome and each dead letter once",
                now);
}

void ReportChecks::on_turn_told(ProcessId process, const TurnRequest& request, const Turn& turn,
                                Time, Time) {
  if (turn.status != TurnStatus::committed) return;
  Count& happened = accounts_[process].happened;
  for (const Settlement& settlement : request.settlements) {
    if (settlement.verdict != Verdict::dead) continue;
    ++happened.buried[static_cast<std::size_t>(settlement.dead_reason)];
  }
  happened.buried[static_cast<std::size_t>(DeadReason::crashed)] += turn.buried.size();
}

void ReportChecks::on_lease_ended(const Row&, ProcessId holder, LeaseId, LeaseEnd how, Time) {
  if (how == LeaseEnd::settled || how == LeaseEnd::released_by_retire) return;
  accounts_[holder].knows_its_leases = false;
}

void ReportChecks::on_receipt(const Attempt& attempt, const Receipt& receipt, Time) {
  if (receipt.outcome == Outcome::cancelled) return;
  Count& happened = accounts_[attempt.process].happened;
  ++happened.ended[static_cast<std::size_t>(receipt.outcome)];
  happened.sent += receipt.sent ? 1 : 0;
}

void ReportChecks::on_observed_end(ProcessId process, Outcome outcome, bool sent, Time) {
  if (outcome == Outcome::cancelled) return;
  Count& reported = accounts_[process].reported;
  ++reported.ended[static_cast<std::size_t>(outcome)];
  reported.sent += sent ? 1 : 0;
}

void ReportChecks::on_observed_burial(ProcessId process, DeadReason reason, Time) {
  ++accounts_[process].reported.buried[static_cast<std::size_t>(reason)];
}

void ReportChecks::on_observed_turn(ProcessId process, const TurnReport& report, std::size_t leases,
                                    Time now) {
  if (report.status != TurnStatus::committed || !accounts_[process].knows_its_leases) return;
  if (report.held_after == leases) return;
  court_.accuse("reports",
                "process " + std::to_string(process) + " reports " +
                    std::to_string(report.held_after) + " leases and has " + std::to_string(leases),
                now);
}

}  // namespace outbox::sim
