// The time of day, for metrics that are Unix times. Nothing else is decided by it.
#pragma once

#include <chrono>
#include <functional>

#include "relay/clock.h"

namespace outbox {

using WallTime = std::chrono::system_clock::time_point;
using WallClock = std::function<WallTime()>;  // safe to call from any thread

inline double seconds_of(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

inline double unix_seconds_of(WallTime time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

}  // namespace outbox
