// Time as the relay knows it: one monotonic axis that keeps counting while the machine sleeps.
#pragma once

#include <chrono>

namespace outbox {

using Duration = std::chrono::nanoseconds;

// The axis of CLOCK_BOOTTIME. Wall clocks never decide anything in relay/ (promise P16).
struct BootAxis {
  using rep = Duration::rep;
  using period = Duration::period;
  using duration = Duration;
  using time_point = std::chrono::time_point<BootAxis>;
  static constexpr bool is_steady = true;
};

using Time = BootAxis::time_point;

// Where the relay reads the time. Implementations are safe to call from any thread.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Time now() const = 0;
};

}  // namespace outbox
