// Circuit breakers that a few failures open, for exactly 15 s.
#pragma once

#include <cstdint>

#include "relay/circuit_breaker.h"

namespace outbox {

// So many transport failures in a row open it.
inline BreakerOptions brittle(std::uint32_t failures, std::uint32_t probes = 1) {
  BreakerOptions options;
  options.break_jitter = 0;
  options.consecutive_failures = failures;
  options.probes = probes;
  return options;
}

inline Time at(int second) { return Time{std::chrono::seconds{second}}; }

inline void fail(CircuitBreaker& breaker, Time now, Permit permit) {
  breaker.on_failure(now, permit, true, Duration{0}, "connection refused");
}

inline void fail_times(CircuitBreaker& breaker, Time now, int times) {
  for (int i = 0; i < times; ++i) fail(breaker, now, breaker.take(now));
}

}  // namespace outbox
