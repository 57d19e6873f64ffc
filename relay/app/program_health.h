// What the program tells its probes: the relay's status board and what the program knows beside it.
#pragma once

#include <atomic>

#include "metrics/health.h"
#include "relay/status_board.h"

namespace outbox {

class ProgramHealth final : public HealthSource {
 public:
  // Both outlive it.
  ProgramHealth(const StatusBoard& board, const Clock& clock, Duration stall_timeout)
      : board_(board), clock_(clock), stall_timeout_(stall_timeout), began_(clock.now()) {}

  void on_set_up() { set_up_ = true; }
  void on_stopping() { stopping_ = true; }

  Health health() const override {
    const auto reading = board_.read();
    Health health;
    health.set_up = set_up_;
    health.started = reading.started;
    health.finished = reading.finished;
    health.loop_age = clock_.now() - (reading.started ? reading.written : began_);
    health.stall_timeout = stall_timeout_;
    health.store_usable = reading.status.store_usable;
    health.store_error = reading.status.store_error;
    health.stopping = reading.status.stopping || stopping_;
    health.paused = reading.status.paused;
    health.circuit = reading.status.circuit;
    health.next_probe = reading.status.next_probe;
    health.held_destinations = reading.status.held_destinations;
    return health;
  }

 private:
  const StatusBoard& board_;
  const Clock& clock_;
  const Duration stall_timeout_;
  const Time began_;
  std::atomic<bool> set_up_ = false;
  std::atomic<bool> stopping_ = false;
};

}  // namespace outbox
