#include "metrics/prometheus_observer.h"

#include <utility>

namespace outbox {

PrometheusObserver::PrometheusObserver(Series& series, EventTypes& event_types, const Clock& clock,
                                       WallClock wall_clock)
    : series_(series),
      event_types_(event_types),
      clock_(clock),
      wall_clock_(std::move(wall_clock)) {
  series_.circuit_state[CircuitState::closed].Set(1);
  series_.broker_up.Set(1);
}

void PrometheusObserver::on_turn(const TurnReport& turn) {
  series_.leases_held.Set(static_cast<double>(turn.held_after));
  if (turn.status == TurnStatus::busy) {
    series_.store_up.Set(1);
    series_.sqlite_busy.Increment();
    return;
  }
  series_.store_duration[StoreOperation::turn].Observe(seconds_of(turn.took));
  const bool committed = turn.status == TurnStatus::committed;
  series_.store_up.Set(committed ? 1 : 0);
  if (!committed) series_.store_faults[StoreOperation::turn].Increment();
  if (committed) {
    series_.last_poll_success.Set(unix_seconds_of(wall_clock_()));
    series_.paused.Set(turn.paused ? 1 : 0);
  }
  // A turn that failed says nothing: the next one may work. An unusable outbox is not worked on.
  if (committed || turn.status == TurnStatus::unusable) {
    const std::lock_guard lock(mutex_);
    series_.active.Set(committed && !stopping_ ? 1 : 0);
  }
  series_.store_faults[StoreOperation::settle].Increment(static_cast<double>(turn.isolated));
  series_.lease_expired.Increment(static_cast<double>(turn.taken_over));
  series_.settlements_fenced.Increment(static_cast<double>(turn.fenced));
}

void PrometheusObserver::on_delivery(const Delivery& delivery) {
  if (delivery.sent) {
    series_.publish_attempts.Increment();
    series_.publish_duration.Observe(seconds_of(delivery.took));
    if (delivery.redelivered) series_.redelivered.Increment();
  }
  if (delivery.will_retry) series_.retries.Increment();
  count_outcome(delivery);
}

void PrometheusObserver::count_outcome(const Delivery& delivery) {
  const auto fail = [this](FailureKind kind, bool answered) {
    series_.publish_failures[kind].Increment();
    series_.broker_up.Set(answered ? 1 : 0);
  };
  switch (delivery.outcome) {
    case Outcome::confirmed:
      event_types_.series_of(delivery.message->event_type).published.Increment();
      series_.delivery_lag.Observe(seconds_of(delivery.lag));
      series_.broker_up.Set(1);
      return;
    case Outcome::transport:
      return fail(FailureKind::transport, false);
    case Outcome::throttled:
      return fail(FailureKind::throttled, true);
    case Outcome::misconfigured:
      return fail(FailureKind::misconfigured, true);
    case Outcome::refused:
      return fail(FailureKind::refused, true);
    case Outcome::conflict:
      return fail(FailureKind::conflict, true);
    case Outcome::cancelled:
      return;
  }
}

void PrometheusObserver::on_short_circuit(const ShortCircuit& short_circuit) {
  for (const ShortCircuit::Count& count : short_circuit.counts) {
    event_types_.series_of(count.event_type)
        .circuit_open.Increment(static_cast<double>(count.messages));
  }
}

void PrometheusObserver::on_burial(const Burial& burial) {
  series_.dead_lettered[burial.reason].Increment();
  event_types_.series_of(burial.event_type).publish_fault.Increment();
}

void PrometheusObserver::on_circuit(const CircuitChange& change) {
  const Time now = clock_.now();
  const std::lock_guard lock(mutex_);
  count_open_time(now);
  series_.circuit_transitions[change.to].Increment();
  become(change.to);
  const bool open = change.to == CircuitState::open;
  open_counted_to_ = open ? std::optional(now) : std::nullopt;
  next_probe_ = open ? std::optional(now + change.next_probe) : std::nullopt;
}

void PrometheusObserver::on_probe_postponed(Duration wait) {
  const std::lock_guard lock(mutex_);
  next_probe_ = clock_.now() + wait;
}

void PrometheusObserver::become(CircuitState state) {
  for (const CircuitState each : {CircuitState::closed, CircuitState::open, CircuitState::half_open,
                                  CircuitState::isolated}) {
    series_.circuit_state[each].Set(each == state ? 1 : 0);
  }
}

void PrometheusObserver::count_open_time(Time now) {
  if (!open_counted_to_) return;
  series_.circuit_open_seconds.Increment(seconds_of(now - *open_counted_to_));
  open_counted_to_ = now;
}

void PrometheusObserver::on_destination(const DestinationChange& change) {
  const auto held = held_destinations_.find(change.destination);
  if (held != held_destinations_.end()) {
    series_.destinations_held[held->second].Decrement();
    held_destinations_.erase(held);
  }
  if (change.reason.empty()) return;
  const HoldReason reason = hold_reason_of(change.kind);
  held_destinations_.emplace(change.destination, reason);
  series_.destinations_held[reason].Increment();
}

void PrometheusObserver::on_in_flight_limit(std::size_t limit) {
  series_.in_flight_limit.Set(static_cast<double>(limit));
}

void PrometheusObserver::refresh() {
  const std::lock_guard lock(mutex_);
  const Time now = clock_.now();
  count_open_time(now);
  // Told by the wall clock of this scrape, so that a step of that clock does not leave it wrong.
  series_.circuit_next_probe.Set(
      next_probe_ ? unix_seconds_of(wall_clock_()) + seconds_of(*next_probe_ - now) : 0);
}

void PrometheusObserver::on_stopping() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  series_.active.Set(0);
}

}  // namespace outbox
