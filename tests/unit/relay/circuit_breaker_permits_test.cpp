// Permits of earlier generations, several probes, the operator's switch, and what is told about it.
#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

#include "relay/circuit_breaker.h"
#include "tests/unit/relay/brittle_breaker.h"

namespace outbox {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

constexpr Duration kTick{1};
constexpr auto kClosed = CircuitState::closed;
constexpr auto kOpen = CircuitState::open;
constexpr auto kHalfOpen = CircuitState::half_open;
constexpr auto kIsolated = CircuitState::isolated;

void trip(CircuitBreaker& breaker, Time now) {
  fail_times(breaker, now, 2);
  REQUIRE(breaker.state() == kOpen);
}

std::vector<Permit> take_all(CircuitBreaker& breaker, Time now) {
  std::vector<Permit> permits;
  while (permits.size() < 100 && breaker.allowance(now, 256) > 0) {
    permits.push_back(breaker.take(now));
  }
  return permits;
}

TEST_CASE("what was sent before the circuit opened decides nothing afterwards") {
  CircuitBreaker breaker(brittle(2, 1), 1);
  std::vector<Permit> early;
  for (int i = 0; i < 8; ++i) early.push_back(breaker.take(at(0)));
  trip(breaker, at(1));

  breaker.on_success(at(2), early[0]);
  fail(breaker, at(2), early[1]);
  breaker.on_cancelled(at(2), early[2]);
  CHECK(breaker.state() == kOpen);
  CHECK(breaker.next_event() == at(16));

  const Permit probe = breaker.take(at(16));
  breaker.on_success(at(17), early[3]);
  breaker.on_neutral(at(17), early[4]);
  CHECK(breaker.state() == kHalfOpen);
  fail(breaker, at(17), early[5]);
  CHECK(breaker.state() == kHalfOpen);
  CHECK(breaker.allowance(at(17), 256) == 0);

  breaker.on_success(at(18), probe);
  REQUIRE(breaker.state() == kClosed);
  fail(breaker, at(18), early[6]);
  fail(breaker, at(18), early[7]);
  CHECK(breaker.state() == kClosed);
}

TEST_CASE("a permit that nobody gave is dropped") {
  CircuitBreaker breaker(brittle(2, 1), 1);
  for (int i = 0; i < 5; ++i) fail(breaker, at(0), Permit{});
  CHECK(breaker.state() == kClosed);
}

TEST_CASE("several probes must all succeed") {
  CircuitBreaker breaker(brittle(2, 3), 1);
  trip(breaker, at(0));
  CHECK(breaker.allowance(at(15), 256) == 3);
  CHECK(breaker.allowance(at(15), 2) == 2);
  const Permit first = breaker.take(at(15));
  CHECK(breaker.allowance(at(15), 256) == 2);
  const Permit second = breaker.take(at(15));
  breaker.on_success(at(16), second);
  // One is out, one is good: one more may go.
  CHECK(breaker.allowance(at(16), 256) == 1);
  const Permit third = breaker.take(at(16));
  CHECK(breaker.allowance(at(16), 256) == 0);
  breaker.on_neutral(at(17), first);
  CHECK(breaker.state() == kHalfOpen);
  CHECK(breaker.allowance(at(17), 256) == 0);
  breaker.on_success(at(18), third);
  CHECK(breaker.state() == kClosed);
}

TEST_CASE("one failed probe of several opens the circuit again") {
  CircuitBreaker breaker(brittle(2, 3), 1);
  trip(breaker, at(0));
  const std::vector<Permit> probes = take_all(breaker, at(15));
  REQUIRE(probes.size() == 3);
  breaker.on_success(at(16), probes[0]);
  breaker.on_success(at(16), probes[1]);
  fail(breaker, at(16), probes[2]);
  CHECK(breaker.state() == kOpen);
  CHECK(breaker.next_event() == at(31));
  // The good ones of last time do not count for the next.
  CHECK(take_all(breaker, at(31)).size() == 3);
}

TEST_CASE("no probe too many is out while an earlier generation's are") {
  CircuitBreaker breaker(brittle(2, 3), 1);
  trip(breaker, at(0));
  const std::vector<Permit> probes = take_all(breaker, at(15));
  REQUIRE(probes.size() == 3);
  breaker.on_cancelled(at(16), probes[0]);
  REQUIRE(breaker.state() == kOpen);
  CHECK(breaker.allowance(at(16), 256) == 1);

  const Permit next = breaker.take(at(16));
  CHECK(breaker.state() == kHalfOpen);
  CHECK(breaker.allowance(at(16), 256) == 0);
  // A late result makes room and decides nothing.
  fail(breaker, at(17), probes[1]);
  CHECK(breaker.state() == kHalfOpen);
  CHECK(breaker.allowance(at(17), 256) == 1);
  // So does a time-out: the next event is that of the oldest probe.
  CHECK(breaker.next_event() == at(25));
  breaker.tick(at(25));
  CHECK(breaker.state() == kHalfOpen);
  CHECK(breaker.allowance(at(25), 256) == 2);
  CHECK(breaker.next_event() == at(26));
  breaker.on_success(at(25), next);
  for (const Permit& probe : take_all(breaker, at(25))) breaker.on_success(at(25), probe);
  CHECK(breaker.state() == kClosed);
}

TEST_CASE("while earlier probes fill all room, the next event is their time-out") {
  BreakerOptions options = brittle(2, 2);
  options.break_duration = seconds{2};
  CircuitBreaker breaker(options, 1);
  trip(breaker, at(0));
  REQUIRE(take_all(breaker, at(2)).size() == 2);
  breaker.close(at(3));
  trip(breaker, at(3));
  CHECK(breaker.next_event() == at(5));
  CHECK(breaker.allowance(at(5), 256) == 0);
  CHECK(breaker.next_event() == at(12));
  breaker.tick(at(12));
  CHECK(breaker.state() == kOpen);
  CHECK(breaker.allowance(at(12), 256) == 2);
  CHECK_FALSE(breaker.next_event());
}

TEST_CASE("a probe's second result is none") {
  CircuitBreaker breaker(brittle(2, 2), 1);
  trip(breaker, at(0));
  const Permit probe = breaker.take(at(15));
  breaker.on_success(at(16), probe);
  breaker.on_success(at(16), probe);
  CHECK(breaker.state() == kHalfOpen);
  CHECK(breaker.allowance(at(16), 256) == 1);
  fail(breaker, at(16), probe);
  breaker.on_cancelled(at(16), probe);
  CHECK(breaker.state() == kHalfOpen);
}

TEST_CASE("each probe has its own time") {
  CircuitBreaker breaker(brittle(2, 2), 1);
  trip(breaker, at(0));
  const Permit first = breaker.take(at(15));
  breaker.take(at(20));
  CHECK(breaker.next_event() == at(25));
  breaker.on_success(at(24), first);
  CHECK(breaker.next_event() == at(30));
  breaker.tick(at(29));
  CHECK(breaker.state() == kHalfOpen);
  breaker.tick(at(30));
  CHECK(breaker.state() == kOpen);
  CHECK(breaker.next_event() == at(45));
}

TEST_CASE("no probes at all would never close the circuit, so there is one") {
  CircuitBreaker breaker(brittle(2, 0), 1);
  trip(breaker, at(0));
  REQUIRE(breaker.allowance(at(15), 256) == 1);
  breaker.on_success(at(15), breaker.take(at(15)));
  CHECK(breaker.state() == kClosed);
}

TEST_CASE("an isolated circuit allows nothing until it is closed") {
  for (const CircuitState before : {kClosed, kOpen, kHalfOpen}) {
    CAPTURE(name_of(before));
    CircuitBreaker breaker(brittle(2, 1), 1);
    Permit permit = breaker.take(at(0));
    if (before != kClosed) trip(breaker, at(0));
    if (before == kHalfOpen) permit = breaker.take(at(15));
    breaker.isolate(at(16));
    CHECK(breaker.state() == kIsolated);
    CHECK_FALSE(breaker.next_event());
    CHECK(breaker.allowance(at(16), 256) == 0);
    // Neither results nor time change that.
    breaker.on_success(at(17), permit);
    fail(breaker, at(17), permit);
    breaker.on_cancelled(at(17), permit);
    breaker.tick(Time{hours{1000}});
    CHECK(breaker.state() == kIsolated);
    CHECK(breaker.allowance(Time{hours{1000}}, 256) == 0);
    breaker.close(Time{hours{1000}});
    CHECK(breaker.state() == kClosed);
    CHECK(breaker.allowance(Time{hours{1000}}, 256) == 256);
  }
}

TEST_CASE("closing by hand ends a break and forgets what was counted") {
  CircuitBreaker breaker(brittle(2, 1), 1);
  trip(breaker, at(0));
  breaker.close(at(1));
  CHECK(breaker.state() == kClosed);
  CHECK(breaker.allowance(at(1), 256) == 256);
  fail(breaker, at(1), breaker.take(at(1)));
  CHECK(breaker.state() == kClosed);
  // Also when it was closed before.
  breaker.close(at(1));
  fail(breaker, at(1), breaker.take(at(1)));
  CHECK(breaker.state() == kClosed);
  fail(breaker, at(1), breaker.take(at(1)));
  CHECK(breaker.state() == kOpen);
}

TEST_CASE("closing by hand forgets the window and the growth of breaks") {
  BreakerOptions options = brittle(2, 1);
  options.consecutive_failures = 0;
  options.break_growth = 2;
  CircuitBreaker breaker(options, 1);
  for (int i = 0; i < 9; ++i) fail(breaker, at(0), breaker.take(at(0)));
  breaker.close(at(0));
  for (int i = 0; i < 9; ++i) fail(breaker, at(0), breaker.take(at(0)));
  CHECK(breaker.state() == kClosed);
  fail(breaker, at(0), breaker.take(at(0)));
  REQUIRE(breaker.state() == kOpen);
  fail(breaker, at(15), breaker.take(at(15)));
  CHECK(breaker.next_event() == at(45));
  breaker.close(at(45));
  for (int i = 0; i < 10; ++i) fail(breaker, at(45), breaker.take(at(45)));
  CHECK(breaker.next_event() == at(60));
}

struct Told {
  CircuitState from;
  CircuitState to;
  Duration next_probe;
  std::string reason_has;
};

void check_changes(CircuitBreaker& breaker, const std::vector<Told>& expected) {
  int number = 0;
  for (const Told& row : expected) {
    CAPTURE(++number);
    const std::optional<CircuitChange> change = breaker.take_change();
    REQUIRE(change);
    CHECK(change->from == row.from);
    CHECK(change->to == row.to);
    CHECK(change->next_probe == row.next_probe);
    CHECK(change->reason.find(row.reason_has) != std::string::npos);
    CHECK(change->reason.empty() == row.reason_has.empty());
  }
  CHECK_FALSE(breaker.take_change());
}

TEST_CASE("all transitions are told once, oldest first, with the reason of an opening") {
  CircuitBreaker breaker(brittle(2, 1), 1);
  trip(breaker, at(0));
  fail(breaker, at(15), breaker.take(at(15)));
  breaker.on_cancelled(at(31), breaker.take(at(30)));
  breaker.take(at(31));
  breaker.tick(at(41));
  breaker.isolate(at(42));
  breaker.isolate(at(43));
  breaker.close(at(44));
  breaker.close(at(45));
  check_changes(breaker, {{kClosed, kOpen, seconds{15}, "2 publishes in a row failed"},
                          {kOpen, kHalfOpen, seconds{0}, ""},
                          {kHalfOpen, kOpen, seconds{15}, "the probe failed: connection refused"},
                          {kOpen, kHalfOpen, seconds{0}, ""},
                          {kHalfOpen, kOpen, seconds{0}, "not sent"},
                          {kOpen, kHalfOpen, seconds{0}, ""},
                          {kHalfOpen, kOpen, seconds{15}, "no result in time"},
                          {kOpen, kIsolated, seconds{0}, "by an operator"},
                          {kIsolated, kClosed, seconds{0}, ""}});
}

TEST_CASE("the reason of an opening gives the counts and the last error") {
  BreakerOptions options = brittle(2, 1);
  options.consecutive_failures = 0;
  CircuitBreaker breaker(options, 1);
  for (int i = 0; i < 7; ++i) breaker.on_success(at(0), breaker.take(at(0)));
  for (int i = 0; i < 6; ++i) fail(breaker, at(1), breaker.take(at(1)));
  breaker.on_failure(at(1), breaker.take(at(1)), false, Duration{0}, "server busy");
  const std::optional<CircuitChange> change = breaker.take_change();
  REQUIRE(change);
  CHECK(change->reason == "7 of the last 14 publishes failed, the last one: server busy");
}

TEST_CASE("the circuit was closed since a time only if it was nothing else at or after it") {
  CircuitBreaker breaker(brittle(2, 1), 1);
  CHECK(breaker.closed_since(Time::min()));
  CHECK(breaker.closed_since(at(0)));
  trip(breaker, at(10));
  CHECK_FALSE(breaker.closed_since(at(10)));
  CHECK_FALSE(breaker.closed_since(at(11)));
  const Permit probe = breaker.take(at(30));
  CHECK_FALSE(breaker.closed_since(at(30)));
  breaker.on_success(at(32), probe);
  // Half-open at 31 s is not closed, although the last opening was before it.
  CHECK_FALSE(breaker.closed_since(at(9)));
  CHECK_FALSE(breaker.closed_since(at(31)));
  CHECK_FALSE(breaker.closed_since(at(32)));
  CHECK(breaker.closed_since(at(32) + kTick));
  breaker.isolate(at(40));
  CHECK_FALSE(breaker.closed_since(at(39)));
  breaker.close(at(41));
  CHECK_FALSE(breaker.closed_since(at(40)));
  CHECK(breaker.closed_since(at(42)));
}

}  // namespace
}  // namespace outbox
