#include "relay/retry_policy.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace outbox {

namespace {

constexpr double kRedeliveryJitter = 0.1;
constexpr double kProportionalJitter = 0.2;

double nanoseconds(Duration duration) { return static_cast<double>(duration.count()); }

// The nearest duration, or the longest one there is: a sum of waits must not turn negative.
Duration saturated(long double count) {
  if (count >= static_cast<long double>(Duration::max().count())) return Duration::max();
  return Duration{std::llround(count)};
}

Duration scaled(Duration duration, double factor) {
  return saturated(static_cast<long double>(duration.count()) * factor);
}

// By squaring, so that a whole factor's power is exact as long as it fits, however high it is.
long double power(long double base, std::uint32_t exponent) {
  long double result = 1;
  while (exponent > 0) {
    if (exponent % 2 == 1) result *= base;
    exponent /= 2;
    if (exponent > 0) base *= base;
  }
  return result;
}

}  // namespace

std::optional<Duration> RetryPolicy::delay_after(const LadderPosition& position,
                                                 Random& random) const {
  const std::uint32_t first_level = options_.max_attempts;
  if (position.counts && position.counted >= attempts_to_death()) return std::nullopt;
  if (position.counts && position.counted >= first_level) {
    const Duration interval = options_.redelivery_intervals[position.counted - first_level];
    return scaled(interval, random.between(1 - kRedeliveryJitter, 1 + kRedeliveryJitter));
  }
  // It has had its attempts, but an outage must not kill it.
  if (!position.counts && position.failures >= first_level) {
    return jittered(options_.max_delay, position.last_delay, random);
  }
  return jittered(backoff(position.failures), position.last_delay, random);
}

Duration RetryPolicy::backoff(std::uint32_t failures) const {
  if (options_.base_delay <= Duration::zero()) return Duration::zero();
  const std::uint32_t exponent = failures > 0 ? failures - 1 : 0;
  const long double grown =
      static_cast<long double>(options_.base_delay.count()) * power(options_.factor, exponent);
  if (grown >= static_cast<long double>(options_.max_delay.count())) return options_.max_delay;
  return Duration{std::llround(grown)};
}

Duration RetryPolicy::jittered(Duration delay, Duration last_delay, Random& random) const {
  switch (options_.jitter) {
    case Jitter::full:
      return scaled(delay, random.unit());
    case Jitter::equal:
      return scaled(delay, random.between(0.5, 1));
    case Jitter::decorrelated: {
      const double low = nanoseconds(options_.base_delay);
      const double high = 3 * std::max(nanoseconds(last_delay), low);
      return std::min(options_.max_delay, saturated(random.between(low, high)));
    }
    case Jitter::proportional:
      return scaled(delay, random.between(1 - kProportionalJitter, 1 + kProportionalJitter));
    case Jitter::none:
      return delay;
  }
  return delay;
}

std::uint32_t RetryPolicy::attempts_to_death() const {
  const std::uint64_t all =
      std::uint64_t{options_.max_attempts} + options_.redelivery_intervals.size();
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(all, std::numeric_limits<std::uint32_t>::max()));
}

Duration RetryPolicy::longest(std::uint32_t failures) const {
  switch (options_.jitter) {
    case Jitter::full:
    case Jitter::equal:
    case Jitter::none:
      return backoff(failures);
    case Jitter::proportional:
      return scaled(backoff(failures), 1 + kProportionalJitter);
    case Jitter::decorrelated: {
      const long double reached =
          static_cast<long double>(options_.base_delay.count()) * power(3, failures);
      return std::min(options_.max_delay, saturated(reached));
    }
  }
  return backoff(failures);
}

Duration RetryPolicy::span() const {
  long double sum = 0;
  const std::uint32_t waits = options_.max_attempts > 0 ? options_.max_attempts - 1 : 0;
  const Duration plateau = longest(std::numeric_limits<std::uint32_t>::max());
  for (std::uint32_t failures = 1; failures <= waits; ++failures) {
    const Duration wait = longest(failures);
    // From here on all waits are alike: there may be billions of them.
    const bool alike = wait == plateau;
    const std::uint32_t repeats = alike ? waits - failures + 1 : 1;
    sum += static_cast<long double>(wait.count()) * repeats;
    if (alike) break;
  }
  for (const Duration interval : options_.redelivery_intervals) {
    sum += static_cast<long double>(scaled(interval, 1 + kRedeliveryJitter).count());
  }
  return saturated(sum);
}

}  // namespace outbox
