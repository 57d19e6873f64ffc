#include "relay/waker.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace outbox {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kFar = seconds{30};  // a wait this long has failed

class SteadyClock final : public Clock {
 public:
  Time now() const override { return Time{std::chrono::steady_clock::now().time_since_epoch()}; }
};

TEST_CASE("a wait ends at its time when nobody rings") {
  const SteadyClock clock;
  Waker waker(clock);
  const Time until = clock.now() + milliseconds{20};
  const Wake wake = waker.wait_until(until);
  CHECK_FALSE(wake.rung);
  CHECK_FALSE(wake.hinted);
  CHECK(clock.now() >= until);
}

TEST_CASE("a wait until a time that has passed does not wait") {
  const SteadyClock clock;
  Waker waker(clock);
  const Time before = clock.now();
  CHECK_FALSE(waker.wait_until(before - kFar).rung);
  CHECK_FALSE(waker.wait_until(before).rung);
  CHECK_FALSE(waker.wait_until(Time::min()).rung);
  CHECK(clock.now() - before < kFar);
}

TEST_CASE("somebody who rang before the wait ends it at once, and only once") {
  const SteadyClock clock;
  Waker waker(clock);
  waker.ring();
  waker.ring();
  const Wake wake = waker.wait_until(clock.now() + kFar);
  CHECK(wake.rung);
  CHECK_FALSE(wake.hinted);
  CHECK_FALSE(waker.wait_until(clock.now() + milliseconds{1}).rung);
}

TEST_CASE("a hint is told as one and is not lost beside a ring") {
  const SteadyClock clock;
  Waker waker(clock);
  waker.hint();
  waker.ring();
  const Wake wake = waker.wait_until(clock.now() + kFar);
  CHECK(wake.rung);
  CHECK(wake.hinted);
  waker.ring();
  CHECK_FALSE(waker.wait_until(clock.now() + kFar).hinted);
}

TEST_CASE("a ring is noticed even when the time has come already") {
  const SteadyClock clock;
  Waker waker(clock);
  waker.hint();
  CHECK(waker.wait_until(Time::min()).hinted);
}

TEST_CASE("ringing from another thread ends a wait") {
  const SteadyClock clock;
  Waker waker(clock);
  std::atomic<bool> hinted = false;
  std::thread sleeper([&] { hinted = waker.wait_until(clock.now() + kFar).hinted; });
  waker.hint();
  sleeper.join();
  CHECK(hinted);
}

TEST_CASE("no ring is lost between threads") {
  const SteadyClock clock;
  Waker waker(clock);
  constexpr int kThreads = 4;
  constexpr int kRings = 5000;
  std::atomic<int> work = 0;
  std::vector<std::thread> ringers;
  for (int i = 0; i < kThreads; ++i) {
    ringers.emplace_back([&] {
      for (int ring = 0; ring < kRings; ++ring) {
        ++work;
        waker.ring();
      }
    });
  }
  bool every_wait_was_rung = true;
  while (every_wait_was_rung && work < kThreads * kRings) {
    every_wait_was_rung = waker.wait_until(clock.now() + kFar).rung;
  }
  for (std::thread& ringer : ringers) ringer.join();
  CHECK(every_wait_was_rung);
}

}  // namespace
}  // namespace outbox
