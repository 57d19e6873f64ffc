#include "tests/sim/model/events.h"

#include <algorithm>
#include <utility>

namespace outbox::sim {
namespace {

constexpr std::int64_t kMillion = 1'000'000;

}  // namespace

void EventQueue::at(Time when, Act act) {
  heap_.push_back(Event{std::max(when, now_), number_++, std::move(act)});
  std::push_heap(heap_.begin(), heap_.end());
}

void EventQueue::run_one() {
  std::pop_heap(heap_.begin(), heap_.end());
  const Event event = std::move(heap_.back());
  heap_.pop_back();
  now_ = event.when;
  event.act();
}

Time ProcessClock::local(Time world) const {
  const std::int64_t passed = world.time_since_epoch().count();
  return Time{offset_ + Duration{passed + passed / kMillion * drift_ppm_}};
}

Time ProcessClock::world(Time when) const {
  const Time day_ahead = world_now() + std::chrono::hours{24};
  if (when >= local(day_ahead)) return day_ahead;
  const std::int64_t passed = (when.time_since_epoch() - offset_).count();
  Time guess{Duration{passed - passed / kMillion * drift_ppm_}};
  while (local(guess) < when) guess += std::max(Duration{1}, when - local(guess));
  return guess;
}

}  // namespace outbox::sim
