// The relay's turns at the store: when one is taken, what it asks for, what came of it.
#include <algorithm>
#include <utility>

#include "relay/check.h"
#include "relay/relay.h"

namespace outbox {
namespace {

constexpr Duration kFailureDelayMin = std::chrono::milliseconds{50};
constexpr Duration kFailureDelayMax = std::chrono::seconds{2};
constexpr Duration kBusyDelayMin = std::chrono::milliseconds{1};
constexpr Duration kEmptyLookMin = std::chrono::milliseconds{2};

}  // namespace

bool Relay::turn_is_due(Time now) {
  if (now < turn_not_before_) return false;
  if (pending_ || news_ || verdicts_.size() >= options_.batch_size) return true;
  if (!verdicts_.empty() && (stopping_ || now - oldest_verdict_ >= options_.settle_wait)) {
    return true;
  }
  return must_renew(now) || wants_to_look(now);
}

bool Relay::must_renew(Time now) const {
  return holding() > 0 && now - renewed_at_ >= options_.lease_term / 3;
}

// Looks when there is reason to and room for what is found; and each poll_interval in any case,
// since a look is also how the store's health and other relays' leases are noticed.
bool Relay::wants_to_look(Time now) {
  if (now >= next_look_) return true;
  if (stopping_ && window_.size() == 0 && lease_limit(now) > 0) return true;
  if (!look_now_) return false;
  const std::size_t worth_it = std::max<std::size_t>(window_limit(now) / 2, 1);
  return lease_limit(now) >= std::min(options_.batch_size, worth_it);
}

// How many rows may be held: everything, the ramp's or the probes' share of it, nothing.
std::size_t Relay::window_limit(Time now) {
  if (breaker_.state() == CircuitState::closed) {
    return now < throttled_until_ ? 0 : ramp_.limit();
  }
  if (options_.breaker.while_open == WhileOpen::charge) return options_.in_flight_max;
  const std::size_t probes = may_probe(now) ? breaker_.allowance(now, options_.in_flight_max) : 0;
  return std::min(window_.size() + probes, options_.in_flight_max);
}

// A row found for a probe may turn out to be unfit (its destination is held): then the next one is
// asked for with the next poll, not at once.
bool Relay::may_probe(Time now) {
  return breaker_.state() != CircuitState::closed && now >= probe_not_before_ &&
         breaker_.allowance(now, 1) > 0;
}

// While rows can only be turned away (held destinations, a charging open circuit), the poll paces
// the looks; else a backlog would be leased and turned away as fast as the database allows.
bool Relay::is_paced(Time now) {
  if (now >= next_look_) return false;
  const bool charging =
      options_.breaker.while_open == WhileOpen::charge && breaker_.state() != CircuitState::closed;
  return (charging && !may_probe(now)) || destinations_.all_held();
}

std::size_t Relay::lease_limit(Time now) {
  // What this turn settles is no longer held when it leases.
  const std::size_t held = window_.size() + (pending_ ? verdicts_.size() : 0);
  if (nothing_due_ || paused_ || window_.holds_loner()) return 0;
  if (breaker_.state() == CircuitState::isolated || is_paced(now)) return 0;
  if (wants_solitude_ && held > 0) return 0;
  if (window_.bytes() >= options_.in_flight_bytes_max) return 0;
  const std::size_t most = window_limit(now);
  return held >= most ? 0 : std::min(options_.batch_size, most - held);
}

// Failed rows get a share of the window while fresh ones wait. Of a small window, just after a
// break, that is none: only fresh rows tell whether the broker is back for everybody.
std::size_t Relay::retry_limit(Time now, std::size_t limit) {
  if (options_.retry_share >= 1) return limit;
  const std::size_t window = window_limit(now);
  const double share = static_cast<double>(window) * options_.retry_share;
  const std::size_t least = window >= options_.in_flight_max ? 1 : 0;
  const std::size_t most = std::max(static_cast<std::size_t>(share), least);
  const std::size_t under_way = window_.retries();
  return std::min(limit, under_way >= most ? std::size_t{0} : most - under_way);
}

void Relay::form_turn() {
  Pending pending;
  pending.settlements = std::exchange(verdicts_, {});
  pending.graves = std::exchange(graves_, {});
  waiting_keys_.clear();
  pending.request.number = ++turn_number_;
  pending.request.circuit = std::exchange(news_, std::nullopt);
  pending.news_open_until = news_open_until_;
  pending_ = std::move(pending);
}

// What the turn asks for besides settling. A repeated turn asks afresh: if it was applied before,
// the store returns the rows that it leased then, whatever is asked for now.
void Relay::ask_for_rows(Time now) {
  TurnRequest& request = pending_->request;
  request.settlements = pending_->settlements;
  if (request.circuit && request.circuit->kind == CircuitNews::Kind::opened) {
    // The break goes on while the database is away.
    request.circuit->open_for = std::max(pending_->news_open_until - now, Duration{0});
  }
  LeaseRequest& lease = request.lease;
  lease.limit = lease_limit(now);
  lease.retry_limit = retry_limit(now, lease.limit);
  const std::uint64_t used = window_.bytes();
  lease.bytes = options_.in_flight_bytes_max > used ? options_.in_flight_bytes_max - used : 0;
  lease.payload_max = options_.payload_max;
  lease.term = options_.lease_term;
  lease.holding = window_.size() + verdicts_.size();
  lease.recovered = recovered_;
  // With a full window one of its rows will be the probe: only its place is asked for.
  const bool place_alone = lease.limit == 0 && window_.ready() > 0 && !probe_is_ours(now);
  lease.probe = may_probe(now) && (lease.limit > 0 || place_alone);
  lease.probe_term = options_.breaker.probe_timeout;
  request.renew = must_renew(now) || (lease.probe && place_alone);
  lease.ordering = options_.ordering;
  lease.dead_blocks_key = options_.dead_blocks_key;
}

void Relay::take_turn(Time now) {
  if (!pending_) form_turn();
  ask_for_rows(now);
  const Time before = clock_.now();
  Turn turn = store_.turn(pending_->request);
  const Time after = clock_.now();

  last_turn_ = turn.status;
  store_error_ = turn.error;
  if (turn.status == TurnStatus::failed) pending_->outcome_unknown = true;
  store_gave_up_ = stopping_ && turn.status == TurnStatus::unusable && !pending_->outcome_unknown;
  // The leases may have ended before the store renewed them, or while it was asked.
  if (turn.leases_lost || (trust_until_ && after >= *trust_until_)) end_era();
  if (turn.status == TurnStatus::committed) {
    turn_committed(turn, before, after);
    for (Message& message : turn.leased) lease_row(std::move(message), before);
  } else {
    turn_failed(turn, after);
  }
  report_turn(turn, after - before);
  if (turn.status == TurnStatus::committed) pending_.reset();
}

void Relay::turn_committed(const Turn& turn, Time before, Time after) {
  failure_delay_ = Duration{0};
  turn_not_before_ = after + turn.rest;
  last_epoch_ = std::max(last_epoch_, turn.epoch);
  if (turn.renewed) {
    renewed_at_ = before;
    trust_until_ = before + options_.lease_term;
  }
  heed_verdict(turn, before, after);
  date_recovery(turn);
  obey_operator(turn, after);
  if (pending_->request.lease.probe && !turn.leased.empty()) {
    probe_not_before_ = after + options_.poll_interval;
  }
  schedule_look(turn, after);
}

// An isolation or a pause stands in the database, so that it holds for every relay and across
// restarts. Both let what travels come to its end.
void Relay::obey_operator(const Turn& turn, Time now) {
  const bool isolated = breaker_.state() == CircuitState::isolated;
  if (turn.circuit_held && !isolated) breaker_.isolate(now, turn.why_held);
  if (!turn.circuit_held && isolated) breaker_.close(now);
  if (turn.paused && !paused_) publisher_.recall();
  if (!turn.paused && paused_) look_now_ = true;
  paused_ = turn.paused;
}

// A verdict that another relay has ended ends here too: it has found the broker well.
void Relay::heed_verdict(const Turn& turn, Time before, Time now) {
  const std::optional<SharedVerdict> known = std::exchange(verdict_, turn.verdict);
  if (!verdict_) return breaker_.trust();
  if (verdict_->open) {
    const bool is_new = !known || !known->open || known->number != verdict_->number;
    const auto& told = pending_->request.circuit;
    if (is_new && told && told->kind == CircuitNews::Kind::opened) our_verdict_ = verdict_->number;
    suspect(now);
    // One row is enough for a relay that has just started to find out.
    if (!known && options_.ramp_after_open) ramp_.restart();
    const LeaseRequest& asked = pending_->request.lease;
    const bool has_row = asked.limit == 0 || !turn.leased.empty();
    const bool granted = asked.probe && has_row && verdict_->wait <= Duration{0};
    if (granted) probe_ours_until_ = before + asked.probe_term;
    return;
  }
  breaker_.trust();
  const bool ended = known && known->open && !news_;
  const bool waits =
      breaker_.state() == CircuitState::open || breaker_.state() == CircuitState::half_open;
  if (ended && waits) breaker_.close(now, "another relay's probe got through");
}

void Relay::suspect(Time now) {
  const std::optional<Time> planned = breaker_.next_event();
  breaker_.suspect(now, verdict_->wait);
  const std::optional<Time> postponed = breaker_.next_event();
  if (postponed && postponed != planned) observer_.on_probe_postponed(*postponed - now);
}

// Whatever was settled before the first look after the recovery, by whichever relay, was due in it.
void Relay::date_recovery(const Turn& turn) {
  if (recovered_ != kAllSettled || pending_->request.lease.recovered != kAllSettled) return;
  if (pending_->request.lease.limit == 0) return;
  if (turn.epoch > 0) {
    recovered_ = turn.epoch;
  } else if (!turn.more) {
    recovered_ = last_epoch_;
  }
}

void Relay::turn_failed(const Turn& turn, Time after) {
  if (turn.status == TurnStatus::unusable) publisher_.recall();
  if (turn.status == TurnStatus::busy) {
    turn_not_before_ = after + std::max(turn.rest, kBusyDelayMin);
    return;
  }
  failure_delay_ = std::clamp(failure_delay_ * 2, kFailureDelayMin, kFailureDelayMax);
  turn_not_before_ = after + std::max(turn.rest, failure_delay_);
}

void Relay::lease_row(Message message, Time before) {
  if (settles_unwritten(message)) return;
  if (Held* held = window_.by_row(message.row)) {
    // Its earlier lease was lost while it travelled: it keeps travelling under the new one.
    held->message.lease = message.lease;
    held->message.generation = message.generation;
    held->era = era_;
    held->leased_at = before;
    return;
  }
  if (message.ordering_key && waiting_keys_.contains(*message.ordering_key)) {
    add_verdict(Judge::released(message), message);
    return;
  }
  auto held = std::make_unique<Held>();
  held->message = std::move(message);
  held->leased_at = before;
  held->era = era_;
  window_.add(std::move(held));
}

// A repeated turn may bring back a row that was decided while the turn's outcome was unknown.
bool Relay::settles_unwritten(const Message& message) {
  const auto known = std::find_if(verdicts_.begin(), verdicts_.end(),
                                  [&](const Settlement& one) { return one.row == message.row; });
  if (known == verdicts_.end()) return false;
  known->lease = message.lease;
  known->generation = message.generation;
  return true;
}

void Relay::schedule_look(const Turn& turn, Time now) {
  const bool was_look = pending_->request.lease.limit > 0;
  if (was_look || now >= next_look_) next_look_ = now + options_.poll_interval;
  if (!was_look) return;  // what is due stays unknown
  const bool found = !turn.leased.empty();
  wants_solitude_ = turn.wants_solitude;
  look_now_ = (found && turn.more) || turn.wants_solitude;
  if (turn.next_due)
    next_look_ = std::min(next_look_, now + std::max(*turn.next_due, kEmptyLookMin));
  if (found) return;
  if (turn.more) next_look_ = std::min(next_look_, now + kEmptyLookMin);
  if (now < hinted_until_) {
    next_look_ = std::min(next_look_, now + look_again_after_);
    look_again_after_ *= 2;
  }
  const bool due_now = turn.next_due && *turn.next_due <= Duration{0};
  // The last word of a drain: nothing is held any more, and nothing is due.
  const bool empty = window_.size() == 0 && verdicts_.empty();
  if (stopping_ && empty && !turn.more && !turn.wants_solitude && !due_now) nothing_due_ = true;
}

void Relay::report_turn(const Turn& turn, Duration took) {
  TurnReport report;
  report.status = turn.status;
  report.error = turn.error;
  report.took = took;
  report.leased = turn.leased.size();
  report.fenced = turn.fenced;
  report.isolated = turn.isolated;
  report.isolated_error = turn.isolated_error;
  report.taken_over = turn.taken_over;
  if (turn.status == TurnStatus::committed) {
    report.settled = pending_->settlements.size();
    report.paused = turn.paused;
    report.held_after = window_.size() + verdicts_.size();
    report_burials(turn);
  } else {
    report.held_after = holding();
  }
  observer_.on_turn(report);
}

void Relay::report_burials(const Turn& turn) {
  const auto tell = [this](DeadReason reason, const BuriedRow& row) {
    observer_.on_burial({row.id, row.event_type, reason, row.attempts, row.error});
  };
  for (const Grave& grave : pending_->graves) tell(grave.reason, grave.row);
  for (const BuriedRow& row : turn.buried) tell(DeadReason::crashed, row);
}

}  // namespace outbox
