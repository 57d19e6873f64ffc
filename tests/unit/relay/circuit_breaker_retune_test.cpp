// Thresholds that change while a circuit breaker is at work.
#include <doctest/doctest.h>

#include "relay/circuit_breaker.h"
#include "tests/unit/relay/brittle_breaker.h"

namespace outbox {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_CASE("a lower threshold opens with the next failure, not by itself") {
  CircuitBreaker breaker(brittle(5), 1);
  fail_times(breaker, at(1), 4);
  breaker.retune(at(2), brittle(3));
  breaker.tick(at(2));
  CHECK(breaker.state() == CircuitState::closed);
  fail_times(breaker, at(2), 1);
  CHECK(breaker.state() == CircuitState::open);
}

TEST_CASE("only the latest failures of a row count when fewer are asked for") {
  CircuitBreaker breaker(brittle(5), 1);
  fail_times(breaker, at(1), 2);
  fail_times(breaker, at(28), 2);
  breaker.retune(at(28), brittle(3));
  // The first two are too old by now; the three latest are not.
  fail_times(breaker, at(40), 1);
  CHECK(breaker.state() == CircuitState::open);
}

TEST_CASE("a threshold of none forgets the failures in a row") {
  CircuitBreaker breaker(brittle(5), 1);
  fail_times(breaker, at(1), 4);
  breaker.retune(at(1), brittle(0));
  breaker.retune(at(1), brittle(5));
  fail_times(breaker, at(1), 1);
  CHECK(breaker.state() == CircuitState::closed);
}

TEST_CASE("results counted before are weighed by the new ratio") {
  BreakerOptions options = brittle(0);
  CircuitBreaker breaker(options, 1);
  for (int i = 0; i < 8; ++i) breaker.on_success(at(1), breaker.take(at(1)));
  fail_times(breaker, at(1), 3);
  REQUIRE(breaker.state() == CircuitState::closed);
  options.failure_ratio = 0.25;
  breaker.retune(at(2), options);
  fail_times(breaker, at(2), 1);
  CHECK(breaker.state() == CircuitState::open);
}

TEST_CASE("a shorter sampling duration drops what is older") {
  BreakerOptions options = brittle(0);
  CircuitBreaker breaker(options, 1);
  fail_times(breaker, at(1), 9);
  options.sampling_duration = seconds{2};
  breaker.retune(at(10), options);
  fail_times(breaker, at(10), 1);
  CHECK(breaker.state() == CircuitState::closed);
}

TEST_CASE("a permit taken before stays good, and a break keeps its end") {
  CircuitBreaker breaker(brittle(2), 1);
  const Permit early = breaker.take(at(1));
  fail_times(breaker, at(1), 1);
  breaker.retune(at(1), brittle(2));
  breaker.on_failure(at(2), early, true, Duration{0}, "reset");
  REQUIRE(breaker.state() == CircuitState::open);
  BreakerOptions longer = brittle(2);
  longer.break_duration = seconds{100};
  breaker.retune(at(3), longer);
  CHECK(breaker.next_event() == at(17));
  CHECK(breaker.allowance(at(17), 10) == 1);
}

TEST_CASE("fewer probes than have succeeded close the circuit") {
  CircuitBreaker breaker(brittle(2, 3), 1);
  fail_times(breaker, at(1), 2);
  for (int i = 0; i < 2; ++i) breaker.on_success(at(20), breaker.take(at(20)));
  REQUIRE(breaker.state() == CircuitState::half_open);
  breaker.retune(at(21), brittle(2, 2));
  CHECK(breaker.state() == CircuitState::closed);
}

TEST_CASE("a probe under way decides by the new number of probes") {
  CircuitBreaker breaker(brittle(2, 1), 1);
  fail_times(breaker, at(1), 2);
  const Permit probe = breaker.take(at(20));
  breaker.retune(at(20), brittle(2, 2));
  breaker.on_success(at(20) + milliseconds{5}, probe);
  CHECK(breaker.state() == CircuitState::half_open);
  breaker.on_success(at(21), breaker.take(at(21)));
  CHECK(breaker.state() == CircuitState::closed);
}

TEST_CASE("an isolated circuit stays isolated") {
  CircuitBreaker breaker(brittle(2), 1);
  breaker.isolate(at(1));
  breaker.retune(at(2), brittle(9));
  CHECK(breaker.state() == CircuitState::isolated);
  CHECK(breaker.allowance(at(100), 10) == 0);
}

}  // namespace
}  // namespace outbox
