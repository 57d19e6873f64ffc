// Counts what the relay does, as Prometheus series.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "metrics/event_types.h"
#include "metrics/series.h"
#include "metrics/wall_clock.h"
#include "relay/clock.h"
#include "relay/observer.h"

namespace outbox {

// The on_...() are the relay's; the rest may be called from any thread.
class PrometheusObserver : public RelayObserver {
 public:
  // All references outlive the observer.
  PrometheusObserver(Series& series, EventTypes& event_types, const Clock& clock,
                     WallClock wall_clock);

  void on_turn(const TurnReport& turn) override;
  void on_delivery(const Delivery& delivery) override;
  void on_short_circuit(const ShortCircuit& short_circuit) override;
  void on_burial(const Burial& burial) override;
  void on_circuit(const CircuitChange& change) override;
  void on_probe_postponed(Duration wait) override;
  void on_destination(const DestinationChange& change) override;
  void on_in_flight_limit(std::size_t limit) override;

  // Brings the series that move with time up to now: call it before they are read.
  void refresh();

  // The relay is ending: whatever it still does, it is no longer active.
  void on_stopping();

 private:
  void count_outcome(const Delivery& delivery);
  void become(CircuitState state);  // with the mutex held
  void count_open_time(Time now);   // with the mutex held

  Series& series_;
  EventTypes& event_types_;
  const Clock& clock_;
  const WallClock wall_clock_;

  // The relay's thread only.
  std::unordered_map<std::string, HoldReason> held_destinations_;

  std::mutex mutex_;                     // guards what follows
  std::optional<Time> open_counted_to_;  // set while the circuit is open
  std::optional<Time> next_probe_;       // likewise
  bool stopping_ = false;
};

}  // namespace outbox
