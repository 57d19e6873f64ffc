#include "tests/sim/model/lease_checks.h"

#include <algorithm>

namespace outbox::sim {
namespace {

constexpr Duration kTolerance = std::chrono::microseconds{200};

std::string about(ProcessId process, RowNumber row) {
  return "row " + std::to_string(row) + ", process " + std::to_string(process);
}

bool same(const Settlement& left, const Settlement& right) {
  return left.row == right.row && left.lease == right.lease &&
         left.generation == right.generation && left.verdict == right.verdict &&
         left.delay == right.delay && left.charge == right.charge;
}

}  // namespace

void LeaseChecks::on_ended(ProcessId process, Ending how, Time now) {
  Known& known = processes_[process];
  known.ended = true;
  const Duration patience =
      scenario_.drain_timeout + scenario_.relay.publish_timeout + std::chrono::seconds{10};
  if (how != Ending::gave_up || known.disturbed_until + patience > now) return;
  court_.accuse("P12 clean stop",
                "process " + std::to_string(process) + " gave its drain up, though undisturbed",
                now);
}

void LeaseChecks::on_drained(ProcessId process, std::size_t left, Time now) {
  if (left == 0) return;
  court_.accuse("P12 clean stop",
                "process " + std::to_string(process) + " is drained and still holds " +
                    std::to_string(left) + " leases",
                now);
}

void LeaseChecks::on_disturbed(ProcessId process, Time until) {
  Known& known = processes_[process];
  known.disturbed_until = std::max(known.disturbed_until, until);
}

void LeaseChecks::check_number(Known& known, ProcessId process, const TurnRequest& request,
                               Time now) {
  const std::string who = "process " + std::to_string(process);
  if (!known.repeats) {
    if (request.number != known.number && request.number != known.number + 1) {
      court_.accuse("turn numbers", who + " skips turn numbers", now);
    }
    return;
  }
  if (request.number != known.number) {
    court_.accuse("turn numbers", who + " gives a turn of unknown outcome another number", now);
  } else if (!std::equal(request.settlements.begin(), request.settlements.end(),
                         known.settlements.begin(), known.settlements.end(), same)) {
    court_.accuse("turn numbers", who + " repeats a turn with other settlements", now);
  }
}

void LeaseChecks::on_turn_asked(ProcessId process, const TurnRequest& request, Time now) {
  Known& known = processes_[process];
  check_number(known, process, request, now);
  known.number = request.number;
  known.settlements.assign(request.settlements.begin(), request.settlements.end());
  if (now + kTolerance < known.rest_until) {
    court_.accuse("P17 rest",
                  "process " + std::to_string(process) + " does not leave the " +
                      "database alone for as long as it was asked to",
                  now);
  }
  if (request.lease.limit > scenario_.relay.batch_size) {
    court_.accuse("P14 window",
                  "process " + std::to_string(process) + " asks for " +
                      std::to_string(request.lease.limit) + " rows at once",
                  now);
  }
  if (request.lease.term != scenario_.relay.lease_term) {
    court_.accuse("lease term", "process " + std::to_string(process) + " asks for another term",
                  now);
  }
}

void LeaseChecks::on_turn_told(ProcessId process, const TurnRequest&, const Turn& turn, Time asked,
                               Time told) {
  Known& known = processes_[process];
  known.repeats = turn.status == TurnStatus::failed;
  known.unusable = turn.status == TurnStatus::unusable;
  if (turn.status == TurnStatus::committed || turn.status == TurnStatus::busy) {
    known.rest_until = told + turn.rest;
  }
  if (turn.leases_lost) known.wiped.clear();
  if (turn.status != TurnStatus::committed) return;
  if (turn.renewed) known.trust_from = asked;
  const std::string who = "process " + std::to_string(process);
  if (known.leases > scenario_.relay.in_flight_max) {
    court_.accuse("P14 window", who + " holds " + std::to_string(known.leases) + " rows", told);
  }
  if (known.bytes > scenario_.relay.in_flight_bytes_max + scenario_.relay.payload_max) {
    court_.accuse("P14 window", who + " holds " + std::to_string(known.bytes) + " bytes", told);
  }
}

void LeaseChecks::on_leased(const Row& row, Time now) {
  Holding& holding = rows_[row.number];
  if (holding.holder != 0) {
    court_.accuse("P6 one holder", about(row.holder, row.number) + ": leased while it is leased",
                  now);
  }
  if (row.lease <= holding.highest) {
    court_.accuse("P6 one holder", about(row.holder, row.number) + ": the epoch does not rise",
                  now);
  }
  const bool loaded = row.payload_size <= scenario_.relay.payload_max;
  holding = Holding{row.holder, row.lease, row.lease, loaded ? row.payload_size : 0};
  Known& known = processes_[row.holder];
  ++known.leases;
  known.bytes += holding.bytes;
  if (row.leased_alone && known.leases > 1) {
    court_.accuse("P9 solitude", about(row.holder, row.number) + ": leased alone beside others",
                  now);
  }
}

void LeaseChecks::on_lease_ended(const Row& row, ProcessId holder, LeaseId lease, LeaseEnd how,
                                 Time now) {
  Holding& holding = rows_[row.number];
  Known& known = processes_[holder];
  if (holding.holder == holder && holding.lease == lease) {
    --known.leases;
    known.bytes -= holding.bytes;
    holding.holder = 0;
    holding.lease = 0;
    if (how == LeaseEnd::delivered_by_other) known.delivered_away.emplace(row.number, lease);
    if (how == LeaseEnd::wiped) known.wiped.emplace(row.number, lease);
  }
  if (how != LeaseEnd::term_over) return;
  if (known.until >= now) {
    court_.accuse("P6 one holder", about(holder, row.number) + ": its lease was taken too early",
                  now);
  }
  if (!known.ended && known.disturbed_until < known.renewed_at) {
    court_.accuse("P6 renewal",
                  about(holder, row.number) + ": the lease of an undisturbed relay ran out", now);
  }
}

// An answered row is not kept in memory until it is settled.
void LeaseChecks::on_receipt(const Attempt& attempt, const Receipt& receipt, Time) {
  Holding& holding = rows_[attempt.row];
  if (receipt.outcome == Outcome::cancelled || holding.holder != attempt.process) return;
  processes_[attempt.process].bytes -= holding.bytes;
  holding.bytes = 0;
}

void LeaseChecks::on_renewed(ProcessId process, Time until, Time now) {
  Known& known = processes_[process];
  known.until = until;
  known.renewed_at = now;
}

void LeaseChecks::on_settled(const Row& row, ProcessId process, const Settlement& settlement,
                             Status, Time now) {
  if (settlement.verdict == Verdict::delivered) return;
  const Holding& holding = rows_[row.number];
  if (holding.holder == process && holding.lease == settlement.lease) return;
  court_.accuse("P8 fencing", about(process, row.number) + ": a stale verdict changed the row",
                now);
}

void LeaseChecks::on_submitted(ProcessId process, const Publication&, RowNumber row, Time now) {
  if (!processes_[process].unusable) return;
  court_.accuse("P15 unusable",
                about(process, row) + ": submitted although the database is not usable", now);
}

void LeaseChecks::on_send(const Attempt& attempt, const Publication& publication, Time now) {
  const Holding& holding = rows_[attempt.row];
  const Known& known = processes_[attempt.process];
  const std::string who = about(attempt.process, attempt.row);
  const std::pair<RowNumber, LeaseId> lease{attempt.row, publication.message->lease};
  if (known.delivered_away.contains(lease) || known.wiped.contains(lease)) return;
  if (holding.holder != attempt.process || holding.lease != publication.message->lease) {
    court_.accuse("P6 one holder", who + ": sent without its lease", now);
    return;
  }
  const RelayOptions& options = scenario_.relay;
  if (now + options.publish_timeout > known.until) {
    court_.accuse("P7 trust", who + ": a send that could end after its lease", now);
  }
  const Duration drift = options.lease_term / 1000;
  const Time trust_end = known.trust_from + options.lease_term - options.lease_term / 10 -
                         options.publish_timeout + drift + kTolerance;
  if (now > trust_end)
    court_.accuse("P7 trust", who + ": sent after trust in its lease ended", now);
}

}  // namespace outbox::sim
