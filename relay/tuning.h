// What a running relay lets itself be told anew, and the way it hears of it.
#pragma once

#include <cstddef>
#include <mutex>
#include <optional>
#include <utility>

#include "relay/bell.h"
#include "relay/circuit_breaker.h"
#include "relay/clock.h"
#include "relay/retry_policy.h"

namespace outbox {

// The options that may change while rows travel: none of them takes anything back that was begun.
struct RelayTuning {
  std::size_t batch_size = 100;
  Duration poll_interval = std::chrono::seconds{1};
  RetryOptions retry;
  BreakerOptions breaker;  // but for probe_timeout, which follows from the publish time-out
};

// Carries a tuning to the relay's thread: put() from any thread, take() from the relay's.
class TuningBox {
 public:
  explicit TuningBox(Bell& bell) : bell_(bell) {}

  // Replaces one that was not taken yet: only the latest matters.
  void put(RelayTuning tuning) {
    {
      const std::lock_guard lock(mutex_);
      tuning_ = std::move(tuning);
    }
    bell_.ring();
  }

  std::optional<RelayTuning> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(tuning_, std::nullopt);
  }

 private:
  Bell& bell_;
  std::mutex mutex_;
  std::optional<RelayTuning> tuning_;
};

}  // namespace outbox
