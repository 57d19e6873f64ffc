#include "relay/circuit_breaker.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace outbox {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr Duration kTick{1};
constexpr auto kClosed = CircuitState::closed;
constexpr auto kOpen = CircuitState::open;
constexpr auto kHalfOpen = CircuitState::half_open;

// Ratio 0.5 of at least 10 within 30 s; breaks of exactly 15 s; only the ratio opens.
BreakerOptions by_ratio() {
  BreakerOptions options;
  options.break_jitter = 0;
  options.consecutive_failures = 0;
  return options;
}

// Only five transport failures in a row open.
BreakerOptions by_run() {
  BreakerOptions options = by_ratio();
  options.consecutive_failures = 5;
  options.minimum_throughput = 1'000'000;
  return options;
}

enum class Act { success, neutral, transport, throttled, cancelled, tick, isolate, close };

// Something that happens so many times at one moment, and the state it leaves behind.
struct Step {
  Duration at;
  Act act;
  int times;
  CircuitState after;
};

void report(CircuitBreaker& breaker, Time now, Permit permit, Act act, Duration wait = {}) {
  switch (act) {
    case Act::success:
      breaker.on_success(now, permit);
      return;
    case Act::neutral:
      breaker.on_neutral(now, permit);
      return;
    case Act::transport:
      breaker.on_failure(now, permit, true, wait, "connection refused");
      return;
    case Act::throttled:
      breaker.on_failure(now, permit, false, wait, "429");
      return;
    case Act::cancelled:
      breaker.on_cancelled(now, permit);
      return;
    case Act::tick:
      breaker.tick(now);
      return;
    case Act::isolate:
      breaker.isolate(now);
      return;
    case Act::close:
      breaker.close(now);
      return;
  }
}

void act(CircuitBreaker& breaker, Time now, Act what, Duration wait = {}) {
  const bool publishes = what != Act::tick && what != Act::isolate && what != Act::close;
  Permit permit;
  if (publishes) {
    REQUIRE(breaker.allowance(now, 1) == 1);
    permit = breaker.take(now);
  }
  report(breaker, now, permit, what, wait);
}

void play(CircuitBreaker& breaker, const std::vector<Step>& steps) {
  int number = 0;
  for (const Step& step : steps) {
    ++number;
    for (int i = 0; i < step.times; ++i) act(breaker, Time{step.at}, step.act);
    CAPTURE(number);
    CHECK(name_of(breaker.state()) == std::string(name_of(step.after)));
  }
}

void play(const BreakerOptions& options, const std::vector<Step>& steps) {
  CircuitBreaker breaker(options, 1);
  play(breaker, steps);
}

// Leaves a circuit of by_ratio() open at `now`, for 15 s.
void trip(CircuitBreaker& breaker, Time now) {
  for (int i = 0; i < 10; ++i) act(breaker, now, Act::transport);
  REQUIRE(breaker.state() == kOpen);
}

TEST_CASE("a new circuit is closed and allows the whole window") {
  CircuitBreaker breaker(BreakerOptions{}, 1);
  CHECK(breaker.state() == kClosed);
  CHECK(breaker.allowance(Time{}, 256) == 256);
  CHECK(breaker.allowance(Time{}, 0) == 0);
  CHECK_FALSE(breaker.next_event());
  CHECK_FALSE(breaker.take_change());
  CHECK(breaker.closed_since(Time::min()));
  CHECK_FALSE(breaker.take(Time{}).probe);
}

TEST_CASE("failures open the circuit at the minimum throughput and not before") {
  play(by_ratio(),
       {{seconds{0}, Act::transport, 9, kClosed}, {seconds{0}, Act::transport, 1, kOpen}});
}

TEST_CASE("the failure ratio opens when it is reached, not just below it") {
  play(by_ratio(), {{seconds{0}, Act::success, 500, kClosed},
                    {seconds{1}, Act::transport, 499, kClosed},
                    {seconds{1}, Act::transport, 1, kOpen}});
  BreakerOptions all = by_ratio();
  all.failure_ratio = 1;
  play(all, {{seconds{0}, Act::success, 1, kClosed}, {seconds{1}, Act::transport, 999, kClosed}});
  play(all, {{seconds{0}, Act::transport, 9, kClosed}, {seconds{1}, Act::transport, 1, kOpen}});
}

TEST_CASE("every whole percentage is reached exactly") {
  for (int percent = 1; percent <= 99; ++percent) {
    BreakerOptions options = by_ratio();
    options.failure_ratio = percent / 100.0;
    options.minimum_throughput = 1;
    CAPTURE(percent);
    play(options, {{seconds{0}, Act::success, 300 - 3 * percent, kClosed},
                   {seconds{1}, Act::transport, 3 * percent - 1, kClosed},
                   {seconds{1}, Act::transport, 1, kOpen}});
  }
}

TEST_CASE("a success never opens the circuit, even as the result that makes the throughput") {
  play(by_ratio(), {{seconds{0}, Act::transport, 9, kClosed},
                    {seconds{0}, Act::success, 1, kClosed},
                    {seconds{0}, Act::transport, 1, kOpen}});
}

TEST_CASE("a failure is forgotten when its sub-window is as old as the sampling duration") {
  play(by_ratio(),
       {{seconds{0}, Act::transport, 9, kClosed}, {seconds{30}, Act::transport, 1, kClosed}});
  play(by_ratio(),
       {{seconds{0}, Act::transport, 9, kClosed}, {seconds{30} - kTick, Act::transport, 1, kOpen}});
}

TEST_CASE("a sub-window starts with its first result and takes those of a tenth of the time") {
  // Started at 1 s, so what came just before 4 s goes with it at 31 s.
  play(by_ratio(), {{seconds{1}, Act::transport, 1, kClosed},
                    {seconds{4} - kTick, Act::transport, 8, kClosed},
                    {seconds{31}, Act::transport, 9, kClosed},
                    {seconds{31}, Act::transport, 1, kOpen}});
  // What came at 4 s stays, and only the first one goes.
  play(by_ratio(), {{seconds{1}, Act::transport, 1, kClosed},
                    {seconds{4}, Act::transport, 8, kClosed},
                    {seconds{31}, Act::transport, 1, kClosed},
                    {seconds{31}, Act::transport, 1, kOpen}});
}

TEST_CASE("successes leave the window as failures do") {
  play(by_ratio(), {{seconds{0}, Act::success, 100, kClosed},
                    {seconds{15}, Act::transport, 9, kClosed},
                    {seconds{30} - kTick, Act::transport, 10, kClosed},
                    {seconds{30}, Act::transport, 1, kOpen}});
}

TEST_CASE("a slow trickle of failures never fills the window") {
  CircuitBreaker breaker(by_ratio(), 1);
  // One each 3.75 s: eight at most are in the window together.
  for (int i = 0; i < 1000; ++i) act(breaker, Time{milliseconds{3750} * i}, Act::transport);
  CHECK(breaker.state() == kClosed);
}

TEST_CASE("neutral answers are not in the window") {
  play(by_ratio(), {{seconds{0}, Act::neutral, 100, kClosed},
                    {seconds{0}, Act::transport, 9, kClosed},
                    {seconds{0}, Act::neutral, 100, kClosed},
                    {seconds{0}, Act::transport, 1, kOpen}});
}

TEST_CASE("throttled answers are failures in the window") {
  play(by_ratio(),
       {{seconds{0}, Act::throttled, 9, kClosed}, {seconds{0}, Act::throttled, 1, kOpen}});
}

TEST_CASE("transport failures in a row open the circuit") {
  play(by_run(), {{seconds{0}, Act::success, 900, kClosed},
                  {seconds{0}, Act::transport, 4, kClosed},
                  {seconds{1}, Act::transport, 1, kOpen}});
}

TEST_CASE("any answer ends a row of transport failures, a cancellation does not") {
  for (const Act answer : {Act::success, Act::neutral, Act::throttled}) {
    play(by_run(), {{seconds{0}, Act::transport, 4, kClosed},
                    {seconds{0}, answer, 1, kClosed},
                    {seconds{0}, Act::transport, 4, kClosed},
                    {seconds{0}, Act::transport, 1, kOpen}});
  }
  play(by_run(), {{seconds{0}, Act::transport, 4, kClosed},
                  {seconds{0}, Act::cancelled, 50, kClosed},
                  {seconds{0}, Act::transport, 1, kOpen}});
}

TEST_CASE("throttled answers never make up a row") {
  play(by_run(), {{seconds{0}, Act::throttled, 500, kClosed}});
}

TEST_CASE("a row counts only within the sampling duration") {
  play(by_run(),
       {{seconds{0}, Act::transport, 4, kClosed}, {seconds{30} - kTick, Act::transport, 1, kOpen}});
  // The first one is too old, and the four after it are no row of five until one more comes.
  play(by_run(), {{seconds{0}, Act::transport, 1, kClosed},
                  {seconds{20}, Act::transport, 3, kClosed},
                  {seconds{30}, Act::transport, 1, kClosed},
                  {seconds{31}, Act::transport, 1, kOpen}});
}

TEST_CASE("a row is counted in the order of completion") {
  CircuitBreaker breaker(by_run(), 1);
  std::vector<Permit> permits;
  for (int i = 0; i < 7; ++i) permits.push_back(breaker.take(Time{}));
  // The one sent first succeeds last but one: what was sent behind it was no row after it.
  for (int i = 1; i <= 4; ++i) {
    report(breaker, Time{seconds{i}}, permits[static_cast<std::size_t>(i)], Act::transport);
  }
  report(breaker, Time{seconds{5}}, permits[0], Act::success);
  report(breaker, Time{seconds{6}}, permits[5], Act::transport);
  CHECK(breaker.state() == kClosed);
}

TEST_CASE("no row opens the circuit when rows are switched off") {
  BreakerOptions options = by_run();
  options.consecutive_failures = 0;
  play(options, {{seconds{0}, Act::transport, 1000, kClosed}});
}

TEST_CASE("a cancelled publish is no result") {
  play(by_ratio(), {{seconds{0}, Act::transport, 9, kClosed},
                    {seconds{0}, Act::cancelled, 100, kClosed},
                    {seconds{0}, Act::transport, 1, kOpen}});
}

TEST_CASE("an open circuit allows nothing until its break is over, then one probe") {
  CircuitBreaker breaker(by_ratio(), 1);
  trip(breaker, Time{seconds{100}});
  const Time end{seconds{115}};
  CHECK(breaker.next_event() == end);
  CHECK(breaker.allowance(Time{seconds{100}}, 256) == 0);
  CHECK(breaker.allowance(end - kTick, 256) == 0);
  CHECK(breaker.allowance(end, 256) == 1);
  CHECK(breaker.allowance(end, 0) == 0);
  CHECK(breaker.state() == kOpen);
  const Permit probe = breaker.take(end);
  CHECK(probe.probe);
  CHECK(breaker.state() == kHalfOpen);
  CHECK(breaker.allowance(end, 256) == 0);
  CHECK(breaker.next_event() == end + seconds{10});
}

TEST_CASE("the end of a break is an event until it was seen, so that nobody waits for the past") {
  CircuitBreaker breaker(by_ratio(), 1);
  trip(breaker, Time{});
  breaker.tick(Time{seconds{15}} - kTick);
  CHECK(breaker.next_event() == Time{seconds{15}});
  breaker.tick(Time{seconds{15}});
  CHECK(breaker.state() == kOpen);
  CHECK_FALSE(breaker.next_event());
  CHECK(breaker.allowance(Time{hours{1}}, 5) == 1);
}

TEST_CASE("a break is jittered by the seed") {
  BreakerOptions options = by_ratio();
  options.break_jitter = 0.2;
  CircuitBreaker breaker(options, 2024);
  // Computed with exact fractions by another program, from the same numbers.
  Time now{};
  for (const std::int64_t length : {12334757335, 16692622637, 12432329640}) {
    trip(breaker, now);
    CHECK(breaker.next_event() == now + Duration{length});
    now += Duration{length};
    act(breaker, now, Act::success);
    REQUIRE(breaker.state() == kClosed);
  }
}

TEST_CASE("breaks keep within their jitter") {
  BreakerOptions options = by_ratio();
  options.break_jitter = 0.2;
  Duration least = hours{1};
  Duration most{0};
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    CircuitBreaker breaker(options, seed);
    trip(breaker, Time{});
    const Duration length = breaker.next_event()->time_since_epoch();
    least = std::min(least, length);
    most = std::max(most, length);
  }
  CHECK(least >= seconds{12});
  CHECK(least < milliseconds{12050});
  CHECK(most <= seconds{18});
  CHECK(most > milliseconds{17950});
}

struct Told {
  Duration wait;
  Duration length;
};

TEST_CASE("the broker's wait makes a break longer, never shorter, and an hour at most") {
  const Told rows[] = {
      {seconds{0}, seconds{15}},   {seconds{14}, seconds{15}}, {seconds{16}, seconds{16}},
      {minutes{7}, minutes{7}},    {hours{1}, hours{1}},       {hours{1} + kTick, hours{1}},
      {Duration::max(), hours{1}}, {-seconds{5}, seconds{15}}, {Duration::min(), seconds{15}}};
  for (const Told& row : rows) {
    CircuitBreaker breaker(by_ratio(), 1);
    for (int i = 0; i < 9; ++i) act(breaker, Time{}, Act::throttled);
    act(breaker, Time{}, Act::throttled, row.wait);
    CHECK(breaker.next_event() == Time{row.length});
    // A probe's failure says so too.
    const Time end{row.length};
    act(breaker, end, Act::throttled, row.wait);
    CHECK(breaker.state() == kOpen);
    CHECK(breaker.next_event() == end + row.length);
  }
}

TEST_CASE("breaks in a row grow up to the cap and start over after a closing") {
  BreakerOptions options = by_ratio();
  options.break_growth = 2;
  options.break_max = seconds{100};
  CircuitBreaker breaker(options, 1);
  Time now{};
  for (int round = 0; round < 2; ++round) {
    trip(breaker, now);
    for (const int length : {15, 30, 60, 100, 100}) {
      CHECK(breaker.next_event() == now + seconds{length});
      now += seconds{length};
      act(breaker, now, Act::transport);
      REQUIRE(breaker.state() == kOpen);
    }
    now += seconds{100};
    act(breaker, now, Act::success);
    REQUIRE(breaker.state() == kClosed);
  }
}

TEST_CASE("growth without bounds stays at the cap, and a cap below the break does not shorten it") {
  BreakerOptions options = by_ratio();
  options.break_growth = 1e200;
  options.break_max = seconds{1};
  CircuitBreaker breaker(options, 1);
  Time now{};
  trip(breaker, now);
  for (int i = 0; i < 20; ++i) {
    CHECK(breaker.next_event() == now + seconds{15});
    now += seconds{15};
    act(breaker, now, Act::transport);
  }
}

TEST_CASE("breaks at the cap are jittered too, so that relays do not meet there") {
  BreakerOptions options = by_ratio();
  options.break_jitter = 0.2;
  options.break_growth = 100;
  options.break_max = seconds{100};
  CircuitBreaker breaker(options, 1);
  Time now{};
  trip(breaker, now);
  Duration least = hours{1};
  Duration most{0};
  for (int i = 0; i < 200; ++i) {
    now = *breaker.next_event();
    act(breaker, now, Act::transport);
    least = std::min(least, *breaker.next_event() - now);
    most = std::max(most, *breaker.next_event() - now);
  }
  CHECK(least >= seconds{80});
  CHECK(least < seconds{85});
  CHECK(most > seconds{115});
  CHECK(most <= seconds{120});
}

TEST_CASE("a probe that any answer came to closes the circuit, a failed one opens it again") {
  for (const Act answer : {Act::success, Act::neutral}) {
    play(by_ratio(), {{seconds{0}, Act::transport, 10, kOpen}, {seconds{15}, answer, 1, kClosed}});
  }
  for (const Act answer : {Act::transport, Act::throttled}) {
    play(by_ratio(), {{seconds{0}, Act::transport, 10, kOpen},
                      {seconds{15}, answer, 1, kOpen},
                      {seconds{30}, answer, 1, kOpen},
                      {seconds{45}, Act::success, 1, kClosed}});
  }
}

TEST_CASE("closing forgets the window and the row") {
  BreakerOptions options = by_ratio();
  options.consecutive_failures = 10;
  play(options, {{seconds{0}, Act::transport, 10, kOpen},
                 {seconds{15}, Act::success, 1, kClosed},
                 {seconds{15}, Act::transport, 9, kClosed},
                 {seconds{15}, Act::transport, 1, kOpen}});
}

TEST_CASE("a cancelled probe leaves the circuit open with its break over") {
  CircuitBreaker breaker(by_ratio(), 1);
  trip(breaker, Time{});
  const Time now{seconds{15}};
  act(breaker, now, Act::cancelled);
  CHECK(breaker.state() == kOpen);
  CHECK_FALSE(breaker.next_event());
  CHECK(breaker.allowance(now, 256) == 1);
  act(breaker, now, Act::success);
  CHECK(breaker.state() == kClosed);
}

TEST_CASE("a cancelled probe does not make the next break longer") {
  BreakerOptions options = by_ratio();
  options.break_growth = 2;
  CircuitBreaker breaker(options, 1);
  trip(breaker, Time{});
  for (int i = 0; i < 5; ++i) act(breaker, Time{seconds{15}}, Act::cancelled);
  act(breaker, Time{seconds{15}}, Act::transport);
  CHECK(breaker.next_event() == Time{seconds{45}});
}

TEST_CASE("a probe without a result is lost at its time-out and opens the circuit again") {
  CircuitBreaker breaker(by_ratio(), 1);
  trip(breaker, Time{});
  const Permit probe = breaker.take(Time{seconds{20}});
  const Time deadline{seconds{30}};
  CHECK(breaker.next_event() == deadline);
  breaker.tick(deadline - kTick);
  CHECK(breaker.state() == kHalfOpen);
  CHECK(breaker.allowance(deadline, 256) == 0);
  CHECK(breaker.next_event() == deadline);
  breaker.tick(deadline);
  CHECK(breaker.state() == kOpen);
  CHECK(breaker.next_event() == deadline + seconds{15});
  // Its result may come after all, and means nothing any more.
  breaker.on_success(deadline + kTick, probe);
  CHECK(breaker.state() == kOpen);
  CHECK(breaker.allowance(deadline + seconds{15}, 256) == 1);
}

TEST_CASE("a probe's result that comes late but before the tick still counts") {
  CircuitBreaker breaker(by_ratio(), 1);
  trip(breaker, Time{});
  const Permit probe = breaker.take(Time{seconds{15}});
  breaker.on_success(Time{seconds{26}}, probe);
  CHECK(breaker.state() == kClosed);
  breaker.tick(Time{seconds{26}});
  CHECK(breaker.state() == kClosed);
}

}  // namespace
}  // namespace outbox
