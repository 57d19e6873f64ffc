#include "tests/sim/model/table.h"

#include <algorithm>
#include <utility>

#include "tests/sim/model/lease_choice.h"

namespace outbox::sim {
namespace {

constexpr std::uint32_t kTakeoversToAlone = 2;
constexpr std::uint32_t kCrashesToBury = 5;

}  // namespace

void Table::insert(Row row) {
  const RowNumber number = row.number;
  unfinished_.insert(number);
  facts_.on_inserted(rows_.emplace(number, std::move(row)).first->second);
}

void Table::redrive(RowNumber number, bool mended) {
  Row& row = rows_.at(number);
  if (row.status != Status::dead) return;
  row.status = Status::pending;
  ++row.generation;
  const bool unknown = row.history.outcome_unknown;
  row.history = RowHistory{};
  row.history.outcome_unknown = unknown;
  row.last_attempt.reset();
  row.misconfigured_since.reset();
  row.waits_since = 0;
  row.takeovers = 0;
  row.crashes_alone = 0;
  row.must_be_alone = false;
  if (mended) {
    row.kind = RowKind::plain;
    row.payload_size = row.payload.size();
  }
  facts_.on_redriven(row);
}

bool Table::is_due(const Row& row, LeaseId recovered, Time now) const {
  if (row.status == Status::pending) return row.not_before <= now;
  if (row.status != Status::failed) return false;
  return row.due <= now || (row.waits_since != 0 && row.waits_since <= recovered);
}

std::size_t Table::leases_of(ProcessId who) const {
  std::size_t leases = 0;
  for (const RowNumber number : unfinished_) leases += rows_.at(number).holder == who ? 1 : 0;
  return leases;
}

Turn Table::turn(ProcessId who, const TurnRequest& request, Time now) {
  Incarnation& incarnation = incarnations_[who];
  if (incarnation.last_number == request.number) return repeat(incarnation, who, request, now);

  Turn turn;
  turn.status = TurnStatus::committed;
  const LeaseId epoch = epoch_ + 1;
  bool wrote = request.renew || !request.settlements.empty() || request.circuit.has_value();
  if (request.circuit) circuit_.take_in(who, *request.circuit, now);
  for (const Settlement& settlement : request.settlements) {
    if (incarnation.settled_ahead.contains({row_number(settlement.row), settlement.lease}))
      continue;
    if (!settle(who, settlement, epoch, turn, now)) ++turn.fenced;
  }
  if (request.lease.limit > 0) turn.taken_over = take_over(who, turn, now);
  wrote = wrote || turn.taken_over > 0;

  turn.leases_lost = incarnation.leases_ended;
  LeaseRequest asked = request.lease;
  turn.circuit_held = circuit_held_;
  turn.paused = paused_;
  if ((turn.leases_lost && !scenario_.lost_turn_leases) || circuit_held_ || paused_)
    asked.limit = 0;
  if (asked.probe && !circuit_.may_probe(who, now)) asked.limit = 0;
  LeaseChoice choice(*this, who, asked, now);
  choice.run();
  const bool has_row = request.lease.limit == 0 || !choice.chosen().empty();
  if (asked.probe && has_row && circuit_.may_probe(who, now)) {
    circuit_.keep_probe(who, asked.probe_term, now);
  }
  share(who, turn, now);
  turn.more = choice.more();
  turn.wants_solitude = choice.wants_solitude();
  turn.next_due = choice.next_due();
  wrote = wrote || turn.leases_lost || !choice.chosen().empty();
  if (!wrote) return turn;

  epoch_ = epoch;
  turn.epoch = epoch;
  incarnation.leases_ended = false;
  incarnation.until = std::max(incarnation.until, now + request.lease.term);
  turn.renewed = !turn.leases_lost || scenario_.lost_turn_leases;
  facts_.on_renewed(who, incarnation.until, now);
  for (const RowNumber number : choice.chosen()) {
    Row& row = rows_.at(number);
    lease(row, who, epoch, choice.alone(), now);
    turn.leased.push_back(message_of(row, request.lease, now));
  }
  incarnation.settled_ahead.clear();
  incarnation.last_number = request.number;
  incarnation.last_epoch = epoch;
  incarnation.last_leased = choice.chosen();
  incarnation.last_told_lost = turn.leases_lost;
  return turn;
}

void Table::share(ProcessId who, Turn& turn, Time now) const {
  if (scenario_.shared_verdicts) turn.verdict = circuit_.verdict_for(who, now);
}

Turn Table::repeat(Incarnation& incarnation, ProcessId who, const TurnRequest& request, Time now) {
  Turn turn;
  turn.status = TurnStatus::committed;
  turn.epoch = incarnation.last_epoch;
  LeaseRequest nothing = request.lease;
  nothing.limit = 0;
  LeaseChoice choice(*this, who, nothing, now);
  choice.run();
  turn.more = choice.more();
  turn.next_due = choice.next_due();
  share(who, turn, now);
  turn.circuit_held = circuit_held_;
  turn.paused = paused_;
  turn.leases_lost = incarnation.last_told_lost || incarnation.leases_ended;
  if (incarnation.leases_ended || (turn.leases_lost && !scenario_.lost_turn_leases)) {
    incarnation.leases_ended = false;
    incarnation.last_told_lost = true;
    return turn;
  }
  if (scenario_.repeat_tells_renewed) {
    incarnation.until = std::max(incarnation.until, now + request.lease.term);
    turn.renewed = true;
    facts_.on_renewed(who, incarnation.until, now);
  }
  for (const RowNumber number : incarnation.last_leased) {
    const Row& row = rows_.at(number);
    if (row.holder != who || row.lease != incarnation.last_epoch) continue;
    turn.leased.push_back(message_of(row, request.lease, now));
  }
  return turn;
}

void Table::settle_part(ProcessId who, std::span<const Settlement> part, Time now) {
  Incarnation& incarnation = incarnations_[who];
  Turn turn;
  ++epoch_;
  for (const Settlement& settlement : part) {
    settle(who, settlement, epoch_, turn, now);
    incarnation.settled_ahead.emplace(row_number(settlement.row), settlement.lease);
  }
}

// Whether the settlement changed its row.
bool Table::settle(ProcessId who, const Settlement& settlement, LeaseId epoch, Turn& turn,
                   Time now) {
  const auto found = rows_.find(row_number(settlement.row));
  if (found == rows_.end()) return false;
  Row& row = found->second;
  if (row.generation != settlement.generation) return false;
  if (row.status == Status::processed || row.status == Status::dead) return false;
  const bool holds = row.holder == who && row.lease == settlement.lease;
  const bool fencing = scenario_.bug != Bug::store_without_fencing;
  if (!holds && settlement.verdict != Verdict::delivered && fencing) return false;
  if (settlement.verdict == Verdict::delivered && scenario_.bug == Bug::store_forgets_delivered &&
      row.number % 7 == 3) {
    return true;
  }
  const Status before = row.status;
  if (row.kind == RowKind::trigger && settlement.verdict != Verdict::released) {
    ++turn.isolated;
    turn.isolated_error = "row " + settlement.row + ": a trigger refuses";
  }
  apply(row, settlement, epoch, now);
  facts_.on_settled(row, who, settlement, before, now);
  end_lease(row, holds ? LeaseEnd::settled : LeaseEnd::delivered_by_other, now);
  if (row.status == Status::processed) unfinished_.erase(row.number);
  return true;
}

void Table::apply(Row& row, const Settlement& settlement, LeaseId epoch, Time now) {
  if (settlement.verdict == Verdict::released) return;
  row.last_error = settlement.reason;
  row.history.retry_count += settlement.charge;
  row.history.counted += settlement.counts ? 1 : 0;
  row.history.outcome_unknown |= settlement.outcome_unknown;
  row.history.last_failure = settlement.kind;
  if (settlement.attempted) {
    row.last_attempt = now;
    row.takeovers = 0;
    row.crashes_alone = 0;
    row.must_be_alone = false;
    if (settlement.kind == FailureKind::misconfigured) {
      ++row.history.misconfigured_tries;
      if (!row.misconfigured_since) row.misconfigured_since = now;
    } else {
      row.history.misconfigured_tries = 0;
      row.misconfigured_since.reset();
    }
  }
  switch (settlement.verdict) {
    case Verdict::delivered:
      row.status = Status::processed;
      row.last_error.clear();
      break;
    case Verdict::dead:
      row.status = Status::dead;
      row.dead_reason = settlement.dead_reason;
      break;
    case Verdict::retry:
    case Verdict::held:
      row.status = Status::failed;
      row.due = now + settlement.delay;
      row.history.last_delay = settlement.delay;
      row.waits_since = settlement.waits_for_recovery ? epoch : 0;
      break;
    case Verdict::released:
      break;
  }
}

std::size_t Table::take_over(ProcessId who, Turn& turn, Time now) {
  std::size_t taken = 0;
  for (auto& [other, incarnation] : incarnations_) {
    if (other == who) continue;
    const bool known_dead = !incarnation.lock_held && !has(scenario_.faults, Fault::lock_unknown);
    const bool over = incarnation.until < now || scenario_.bug == Bug::store_steals_early;
    if (!known_dead && !over) continue;
    const LeaseEnd how = known_dead ? LeaseEnd::holder_dead : LeaseEnd::term_over;
    std::size_t of_this = 0;
    for (const RowNumber number : std::vector<RowNumber>(unfinished_.begin(), unfinished_.end())) {
      Row& row = rows_.at(number);
      if (row.holder != other) continue;
      take_over_row(row, how, turn, now);
      ++of_this;
    }
    if (of_this > 0) incarnation.leases_ended = true;
    taken += of_this;
  }
  std::erase_if(incarnations_, [&](const auto& entry) {
    return entry.first != who && !entry.second.lock_held &&
           (entry.second.until < now || !has(scenario_.faults, Fault::lock_unknown));
  });
  return taken;
}

void Table::take_over_row(Row& row, LeaseEnd how, Turn& turn, Time now) {
  // A relay that was only too slow proves nothing against the row.
  row.history.outcome_unknown = true;
  const bool crashed = how == LeaseEnd::holder_dead || has(scenario_.faults, Fault::lock_unknown);
  if (crashed) {
    ++row.takeovers;
    if (row.leased_alone) ++row.crashes_alone;
  }
  if (row.takeovers >= kTakeoversToAlone) row.must_be_alone = true;
  end_lease(row, how, now);
  if (row.crashes_alone < kCrashesToBury) return;
  row.status = Status::dead;
  row.dead_reason = DeadReason::crashed;
  row.last_error = "five relays died holding only this row";
  turn.buried.push_back({row.id, row.event_type, row.history.retry_count, row.last_error});
  facts_.on_buried_by_store(row, now);
}

void Table::end_lease(Row& row, LeaseEnd how, Time now) {
  const ProcessId holder = row.holder;
  const LeaseId lease = row.lease;
  row.holder = 0;
  row.lease = 0;
  row.leased_alone = false;
  if (holder != 0) facts_.on_lease_ended(row, holder, lease, how, now);
}

void Table::lease(Row& row, ProcessId who, LeaseId epoch, bool alone, Time now) {
  row.holder = who;
  row.lease = epoch;
  row.leased_alone = alone;
  facts_.on_leased(row, now);
}

Message Table::message_of(const Row& row, const LeaseRequest& request, Time now) const {
  Message message;
  message.row = row_id(row.number);
  message.lease = row.lease;
  message.generation = row.generation;
  message.id = row.id;
  message.event_type = row.event_type;
  message.ordering_key = row.key;
  message.destination = row.destination;
  message.content_type = "application/json";
  message.occurred_on = "2026-11-30T12:00:00Z";
  message.headers = row.headers;
  message.payload_size = row.payload_size;
  if (row.payload_size <= request.payload_max) message.payload = row.payload;
  message.age = now - row.occurred;
  message.alone = row.leased_alone;
  message.history = row.history;
  if (row.last_attempt) message.history.since_last_attempt = now - *row.last_attempt;
  if (row.misconfigured_since) message.history.misconfigured_for = now - *row.misconfigured_since;
  if (row.kind == RowKind::defect) message.defect = "headers: not a JSON object";
  return message;
}

void Table::retire(ProcessId who, Time now) {
  for (const RowNumber number : unfinished_) {
    Row& row = rows_.at(number);
    if (row.holder == who) end_lease(row, LeaseEnd::released_by_retire, now);
  }
  incarnations_.erase(who);
  circuit_.leave(who);
}

void Table::wipe_leases(Time now) {
  for (const RowNumber number : unfinished_) {
    Row& row = rows_.at(number);
    if (row.holder == 0) continue;
    row.history.outcome_unknown = true;
    end_lease(row, LeaseEnd::wiped, now);
  }
  for (auto& [who, incarnation] : incarnations_) incarnation.leases_ended = true;
}

void Table::process_died(ProcessId who) {
  const auto found = incarnations_.find(who);
  if (found != incarnations_.end()) found->second.lock_held = false;
}

}  // namespace outbox::sim
