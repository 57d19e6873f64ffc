// Time and processor time of a measurement.
#pragma once

#include <sys/resource.h>

#include <chrono>
#include <cstdint>

namespace outbox::bench {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

// Nanoseconds of the system's monotonic clock: comparable between processes.
inline std::int64_t nanoseconds(Clock::time_point time) {
  return std::chrono::nanoseconds(time.time_since_epoch()).count();
}

// Processor time that this process has used so far, in all threads.
inline Seconds cpu_time() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& part) {
    return std::chrono::seconds(part.tv_sec) + std::chrono::microseconds(part.tv_usec);
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

// Starts when it is made.
class Stopwatch {
 public:
  Seconds elapsed() const { return Clock::now() - started_; }
  Seconds cpu() const { return cpu_time() - cpu_started_; }

 private:
  Clock::time_point started_ = Clock::now();
  Seconds cpu_started_ = cpu_time();
};

}  // namespace outbox::bench
