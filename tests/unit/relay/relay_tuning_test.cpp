// New settings for a relay that runs: what changes at once, and what is left as it was.
#include <doctest/doctest.h>

#include "tests/unit/relay/relay_world.h"

namespace outbox {
namespace {

RelayTuning tuning_of(const World& world) {
  return {world.options.batch_size, world.options.poll_interval, world.options.retry,
          world.options.breaker};
}

TEST_CASE("another batch size counts from the next turn on") {
  World world;
  world.publisher.capacity = 5;
  world.add_rows(500);
  auto tuning = tuning_of(world);
  tuning.batch_size = 7;
  world.relay->retune(tuning);
  world.run_for(10ms);
  for (const auto& request : world.store.requests) CHECK(request.lease.limit <= 7);
  CHECK(world.publisher.sent.size() == 5);
}

TEST_CASE("a batch size beyond the window is cut to it") {
  RelayOptions options;
  options.in_flight_max = 20;
  options.batch_size = 10;
  World world(options);
  auto tuning = tuning_of(world);
  tuning.batch_size = 5000;
  world.relay->retune(tuning);
  world.add_rows(500);
  world.run_for(1s);
  CHECK(world.relay->status().held == 20);
  world.publisher.answer_all(Outcome::confirmed);
  world.run_for(1s);
  CHECK(world.store.count(Verdict::delivered) >= 20);
}

TEST_CASE("a shorter poll interval does not wait for the end of the longer one") {
  RelayOptions options;
  options.poll_interval = 1h;
  World world(options);
  world.run_for(1s);
  const std::size_t before = world.store.requests.size();
  auto tuning = tuning_of(world);
  tuning.poll_interval = 100ms;
  world.relay->retune(tuning);
  world.run_for(1s);
  CHECK(world.store.requests.size() >= before + 9);
}

TEST_CASE("failures are judged by the new ladder, also those of rows that travelled before") {
  World world;
  world.add_rows(1);
  world.run_for(10ms);
  REQUIRE(world.publisher.waiting.size() == 1);
  auto tuning = tuning_of(world);
  tuning.retry.base_delay = 77s;
  world.relay->retune(tuning);
  world.publisher.answer(Outcome::transport);
  world.run_for(100ms);
  REQUIRE(world.store.settled.size() == 1);
  CHECK(world.store.settled.front().verdict == Verdict::retry);
  CHECK(world.store.settled.front().delay == 77s);
}

TEST_CASE("a ladder that became shorter ends for rows beyond it with their next counted failure") {
  RelayOptions options;
  options.retry.outage_guard = false;
  World world(options);
  world.add_rows(1);
  world.store.rows.back().history.retry_count = 3;
  world.store.rows.back().history.counted = 3;
  world.run_for(10ms);
  auto tuning = tuning_of(world);
  tuning.retry.max_attempts = 2;
  tuning.retry.redelivery_intervals.clear();
  world.relay->retune(tuning);
  world.publisher.answer(Outcome::transport);
  world.run_for(100ms);
  REQUIRE(world.recorder.buried.size() == 1);
  CHECK(world.recorder.buried.front() == DeadReason::attempts_exhausted);
}

TEST_CASE("no message and no permit is lost when the settings change under way") {
  World world;
  world.publisher.capacity = 30;
  world.add_rows(100);
  world.run_for(10ms);
  REQUIRE(world.publisher.waiting.size() == 30);
  for (int round = 0; round < 200 && world.store.count(Verdict::delivered) < 100; ++round) {
    auto tuning = tuning_of(world);
    tuning.batch_size = static_cast<std::size_t>(1 + round % 9);
    tuning.breaker.sampling_duration = std::chrono::seconds{1 + round % 5};
    tuning.breaker.consecutive_failures = static_cast<std::uint32_t>(3 + round % 4);
    tuning.breaker.probes = static_cast<std::uint32_t>(1 + round % 3);
    world.relay->retune(tuning);
    world.publisher.answer(Outcome::confirmed);
    world.run_for(10ms);
  }
  world.publisher.answer_all(Outcome::confirmed);
  world.run_for(100ms);
  CHECK(world.store.count(Verdict::delivered) == 100);
  CHECK(world.recorder.circuits.empty());
  CHECK(world.relay->status().held == 0);
  CHECK(world.publisher.sent.size() == 100);
}

TEST_CASE("failures from before a change count under the new threshold") {
  World world;
  world.add_rows(10);
  world.run_for(10ms);
  for (int i = 0; i < 3; ++i) world.publisher.answer(Outcome::transport);
  world.run_for(10ms);
  auto tuning = tuning_of(world);
  tuning.breaker.consecutive_failures = 4;
  world.relay->retune(tuning);
  world.run_for(10ms);
  CHECK(world.relay->status().circuit == CircuitState::closed);
  world.publisher.answer(Outcome::transport);
  world.run_for(10ms);
  CHECK(world.relay->status().circuit == CircuitState::open);
}

TEST_CASE("an open circuit stays open until the end of its break, whatever the new thresholds") {
  World world;
  world.open_circuit(500);
  auto tuning = tuning_of(world);
  tuning.breaker.break_duration = 1s;
  tuning.breaker.consecutive_failures = 100;
  tuning.breaker.minimum_throughput = 1'000;
  world.relay->retune(tuning);
  world.run_for(14s);
  CHECK(world.relay->status().circuit == CircuitState::open);
  CHECK(world.publisher.sent.size() == 5);
  world.run_for(2s);
  CHECK(world.publisher.sent.size() == 6);
  world.publisher.answer(Outcome::confirmed);
  world.run_for(10ms);
  CHECK(world.relay->status().circuit == CircuitState::closed);
}

TEST_CASE("a stop goes on draining under new settings") {
  World world;
  world.publisher.capacity = 10;
  world.add_rows(50);
  world.run_for(10ms);
  world.relay->stop();
  auto tuning = tuning_of(world);
  tuning.batch_size = 3;
  tuning.poll_interval = 10ms;
  world.relay->retune(tuning);
  for (int round = 0; round < 100 && !world.relay->drained(); ++round) {
    world.publisher.answer_all(Outcome::confirmed);
    world.run_for(50ms);
  }
  CHECK(world.relay->drained());
  CHECK(world.store.count(Verdict::delivered) == 50);
}

}  // namespace
}  // namespace outbox
