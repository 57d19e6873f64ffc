// Tells the log what the relay does: changes and failures, never one line a delivered message.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "relay/app/log.h"
#include "relay/app/log_limit.h"
#include "relay/clock.h"
#include "relay/observer.h"
#include "relay/outbox_desk.h"

namespace outbox {

// What a run came to, for its last line.
struct RunCounts {
  std::uint64_t published = 0;
  std::uint64_t failed_attempts = 0;
  std::uint64_t short_circuited = 0;
  std::uint64_t dead_lettered = 0;
};

// The on_...() come from the relay's thread; set_backlog() from any; counts() and flush() once the
// relay's thread has ended.
class LogObserver final : public RelayObserver {
 public:
  static constexpr Duration kWindow = std::chrono::seconds{10};
  static constexpr Duration kBusyMax = std::chrono::seconds{10};  // without a line
  static constexpr std::uint32_t kDeadLettersInWindow = 10;

  // The log and the clock outlive the observer.
  LogObserver(Log& log, const Clock& clock, std::string broker);

  void on_turn(const TurnReport& turn) override;
  void on_delivery(const Delivery& delivery) override;
  void on_short_circuit(const ShortCircuit& short_circuit) override;
  void on_burial(const Burial& burial) override;
  void on_circuit(const CircuitChange& change) override;
  void on_probe() override;
  void on_destination(const DestinationChange& change) override;

  // The last sample, for the lines that a probe gets.
  void set_backlog(const Backlog& backlog, Time sampled_at);

  // Lines for what the limits left out and is not told yet.
  void flush();
  const RunCounts& counts() const { return counts_; }

 private:
  struct Sample {
    std::uint64_t waiting = 0;
    std::optional<Duration> oldest_age;
    Time taken{};
  };

  void tell_store(const TurnReport& turn);
  void tell_pause(const TurnReport& turn);
  void tell_overdue(Time now);
  void tell_more(const FingerprintLimit::Overdue& overdue);
  void tell_more_dead(std::uint64_t count);

  Log& log_;
  const Clock& clock_;
  const std::string broker_;

  // The relay's thread only.
  RunCounts counts_;
  FingerprintLimit failures_{kWindow};
  FingerprintLimit store_errors_{kWindow};
  LineLimit dead_letters_{kDeadLettersInWindow, kWindow};
  std::optional<bool> store_usable_;
  std::optional<Time> busy_since_;
  bool paused_ = false;
  std::string store_fingerprint_;
  Duration next_probe_{0};

  std::mutex mutex_;  // guards what follows
  std::optional<Sample> sample_;
};

}  // namespace outbox
