// Virtual time: a queue of events, and the clocks that processes read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "relay/clock.h"

namespace outbox::sim {

// The world's time is also the database's. Events of one time run in the order they were added.
class EventQueue {
 public:
  using Act = std::function<void()>;

  Time now() const { return now_; }
  void at(Time when, Act act);
  void after(Duration wait, Act act) { at(now_ + wait, std::move(act)); }

  bool empty() const { return heap_.empty(); }
  Time next() const { return heap_.front().when; }
  // Runs the earliest event; requires !empty().
  void run_one();

 private:
  struct Event {
    Time when;
    std::uint64_t number;
    Act act;
    bool operator<(const Event& other) const {
      return when != other.when ? when > other.when : number > other.number;
    }
  };

  Time now_{};
  std::uint64_t number_ = 0;
  std::vector<Event> heap_;
};

// What a process reads: another origin and a slightly different rate than the world's, and ahead of
// the queue by what the step under way has cost so far.
class ProcessClock final : public Clock {
 public:
  ProcessClock(const EventQueue& events, Duration offset, std::int64_t drift_ppm)
      : events_(events), offset_(offset), drift_ppm_(drift_ppm) {}

  Time now() const override { return local(world_now()); }

  // The world's time as this process lives it.
  Time world_now() const { return events_.now() + lag_; }
  Time local(Time world) const;
  // The earliest world time at which local() reaches `when`; far futures are cut at a day.
  Time world(Time when) const;

  void begin_step() { lag_ = Duration{0}; }
  void spend(Duration cost) { lag_ += cost; }
  Duration lag() const { return lag_; }

 private:
  const EventQueue& events_;
  const Duration offset_;
  const std::int64_t drift_ppm_;
  Duration lag_{0};
};

}  // namespace outbox::sim
