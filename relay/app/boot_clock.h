// The machine's monotonic clock that keeps counting while it sleeps.
#pragma once

#include <ctime>

#include "relay/clock.h"

namespace outbox {

class BootClock final : public Clock {
 public:
  Time now() const override {
    timespec reading{};
    clock_gettime(CLOCK_BOOTTIME, &reading);
    return Time{std::chrono::seconds{reading.tv_sec} + std::chrono::nanoseconds{reading.tv_nsec}};
  }
};

}  // namespace outbox
