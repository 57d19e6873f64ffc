// The retry ladder: when a failed row is due again, and when it is not (behaviour: "Retry ladder").
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "relay/clock.h"
#include "relay/random.h"

namespace outbox {

enum class Jitter {
  full,          // U(0, d)
  equal,         // d/2 + U(0, d/2)
  decorrelated,  // min(cap, U(base, 3 x the last wait))
  proportional,  // d x U(0.8, 1.2)
  none,
};

struct RetryOptions {
  std::uint32_t max_attempts = 6;  // the first one included
  Duration base_delay = std::chrono::seconds{1};
  double factor = 2;
  Duration max_delay = std::chrono::minutes{5};
  Jitter jitter = Jitter::full;
  // After max_attempts: one further attempt after each (+/-10 %). Ascending; empty switches it off.
  std::vector<Duration> redelivery_intervals = {std::chrono::seconds{60}, std::chrono::minutes{10},
                                                std::chrono::hours{1}};
  bool outage_guard = true;
};

// What a row's failures so far mean for it. Counts include the failure being judged.
struct LadderPosition {
  std::uint32_t failures = 0;  // all: retry_count
  std::uint32_t counted = 0;   // those that count toward death
  bool counts = true;          // whether this one does
  Duration last_delay{0};      // the wait before this attempt, for decorrelated jitter
};

class RetryPolicy {
 public:
  explicit RetryPolicy(RetryOptions options) : options_(std::move(options)) {}

  // The wait before the next attempt, or nothing when the ladder has ended.
  std::optional<Duration> delay_after(const LadderPosition& position, Random& random) const;

  // min(base x factor^(failures - 1), max): exact until it reaches max, never overflowing.
  Duration backoff(std::uint32_t failures) const;

  // `delay` jittered after the cap; `last_delay` matters to decorrelated jitter only, which
  // in turn makes no use of `delay`. Draws one random number, or none for Jitter::none.
  Duration jittered(Duration delay, Duration last_delay, Random& random) const;

  // Counted failures that end the ladder.
  std::uint32_t attempts_to_death() const;

  // The longest time from the first failure to the last attempt, jitter included.
  Duration span() const;

  const RetryOptions& options() const { return options_; }

 private:
  // The longest wait that may follow so many failures, jitter included.
  Duration longest(std::uint32_t failures) const;

  RetryOptions options_;
};

}  // namespace outbox
