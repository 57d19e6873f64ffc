// How the looks of an idle relay become rarer.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

#include "relay/clock.h"

namespace outbox::postgres {

// Each look that finds nothing lets twice as many of the relay's polls pass: up to nine in a row,
// and for no longer than five seconds. Only for outboxes whose inserts are told: what else there is
// to be noticed (other relays that end, a server that is gone) can wait as long.
class IdlePace {
 public:
  // A look found nothing. `next_due`: until something is due.
  void found_nothing(Time now, std::optional<Duration> next_due) {
    looked_at_ = now;
    due_ = next_due ? std::optional(now + *next_due) : std::nullopt;
    every_ = std::min(std::max(1, every_ * 2), kEveryMax);
    skips_left_ = every_ - 1;
  }
  void start_over() { *this = {}; }
  // Whether this poll may pass without a look.
  bool skips(Time now) {
    const bool is_time = now - looked_at_ >= kLongest || (due_ && now >= *due_);
    if (is_time || skips_left_ == 0) return false;
    --skips_left_;
    return true;
  }
  std::optional<Duration> next_due(Time now) const {
    return due_ ? std::optional(std::max(*due_ - now, Duration{0})) : std::nullopt;
  }

 private:
  static constexpr int kEveryMax = 10;
  static constexpr Duration kLongest = std::chrono::seconds{5};

  Time looked_at_{};
  std::optional<Time> due_;
  int every_ = 0;
  int skips_left_ = 0;
};

}  // namespace outbox::postgres
