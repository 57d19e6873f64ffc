// The state machine when the broker or a destination fails: circuit, probes, holds, waits.
#include <doctest/doctest.h>

#include "tests/unit/relay/relay_world.h"

namespace outbox {
namespace {

TEST_CASE(
    "rows held when the circuit opens are short-circuited and charged, and nothing is leased") {
  World world;
  world.open_circuit(500);
  CHECK(world.publisher.recalls == 1);
  CHECK(world.recorder.short_circuited == 195);
  std::size_t charged = 0;
  for (const Settlement& one : world.store.settled) charged += one.charge;
  CHECK(charged == world.recorder.attempts + world.recorder.short_circuited);
  const std::size_t left = world.store.rows.size();
  world.run_for(14s);
  CHECK(world.store.rows.size() == left);
}

TEST_CASE("after the break one row is leased as the probe, and its success lets the rest follow") {
  World world;
  world.open_circuit(500);
  world.run_for(14s);
  const std::size_t before = world.publisher.sent.size();
  world.run_for(2s);
  REQUIRE(world.publisher.sent.size() == before + 1);
  CHECK(world.store.asked_for_a_probe());
  CHECK(world.relay->status().circuit == CircuitState::half_open);
  world.publisher.answer(Outcome::confirmed);
  world.run_for(1s);
  CHECK(world.relay->status().circuit == CircuitState::closed);
  CHECK(world.store.requests.back().lease.recovered > 0);
  CHECK(world.publisher.sent.size() > before + 1);
}

TEST_CASE("a charging circuit asks for a row to probe with only when a probe may go") {
  RelayOptions options;
  options.breaker.while_open = WhileOpen::charge;
  World world(options);
  world.open_circuit(100);
  world.run_for(14s);
  REQUIRE(world.relay->status().circuit == CircuitState::open);
  CHECK_FALSE(world.store.asked_for_a_probe());
  world.run_for(2s);
  CHECK(world.store.asked_for_a_probe());
}

TEST_CASE("a charging circuit turns away one batch a poll, not the backlog at once") {
  RelayOptions options;
  options.breaker.while_open = WhileOpen::charge;
  options.breaker.consecutive_failures = 1;
  options.batch_size = 10;
  World world(options);
  world.publisher.capacity = 1;
  world.add_rows(1000);
  world.run_for(10ms);
  world.publisher.answer(Outcome::transport);
  world.run_for(100ms);
  const std::size_t before = world.recorder.short_circuited;
  world.run_for(5s);
  CHECK(world.recorder.short_circuited - before >= 40);
  CHECK(world.recorder.short_circuited - before <= 60);
}

TEST_CASE("just after a break retries get no share of the small window while it grows") {
  World world;
  world.publisher.capacity = 5;
  world.add_rows(500);
  world.run_for(10ms);
  world.publisher.answer_all(Outcome::transport);
  world.run_for(16s);
  world.store.requests.clear();
  world.publisher.answer(Outcome::confirmed);
  world.run_for(10ms);
  REQUIRE(world.relay->status().in_flight_limit == 1);
  CHECK(world.store.requests.back().lease.retry_limit == 0);
  for (int i = 0; i < 20; ++i) {
    world.publisher.answer_all(Outcome::confirmed);
    world.run_for(10ms);
  }
  CHECK(world.store.requests.back().lease.retry_limit > 0);
}

TEST_CASE("a row that can't serve as the probe is followed by the next one no sooner than a poll") {
  RelayOptions options;
  options.breaker.consecutive_failures = 3;
  World world(options);
  world.publisher.capacity = 5;
  world.add_rows(30);
  world.run_for(10ms);
  for (int i = 0; i < 11; ++i) {
    world.publisher.answer(Outcome::misconfigured, "HTTP 403");
    world.run_for(1ms);
  }
  world.publisher.answer_all(Outcome::transport);
  world.run_for(16s);  // the break is over, the destination is still held
  REQUIRE(world.relay->status().circuit == CircuitState::open);
  const std::size_t before = world.store.count(Verdict::held);
  for (int i = 0; i < 100; ++i) {
    world.add_rows(1);
    world.run_for(100ms);
  }
  const std::size_t turned_away = world.store.count(Verdict::held) - before;
  CHECK(turned_away >= 5);
  CHECK(turned_away <= 15);
}

TEST_CASE("probes stay within in_flight_max") {
  RelayOptions options;
  options.in_flight_max = 1;
  options.batch_size = 1;
  options.breaker.probes = 3;
  options.breaker.consecutive_failures = 1;
  World world(options);
  world.add_rows(10);
  world.run_for(10ms);
  world.publisher.answer(Outcome::transport);
  world.run_for(16s);
  CHECK(world.relay->status().held == 1);
}

TEST_CASE("an idle relay steps a few times a second, also while the circuit is open") {
  World world;
  world.run_for(10s);
  CHECK(world.steps <= 25);
  world.add_rows(20);
  world.run_for(10ms);
  world.publisher.answer_all(Outcome::transport);
  world.run_for(100ms);
  REQUIRE(world.relay->status().circuit == CircuitState::open);
  world.store.rows.clear();
  world.steps = 0;
  world.run_for(60s);
  CHECK(world.steps <= 150);
}

TEST_CASE(
    "a misconfigured destination is held, nothing of it dies, and one row probes it a minute") {
  World world;
  world.add_rows(60);
  world.run_for(10ms);
  for (int i = 0; i < 11; ++i) world.publisher.answer(Outcome::misconfigured, "HTTP 403");
  world.run_for(10ms);
  REQUIRE(world.relay->status().held_destinations.size() == 1);
  CHECK(world.relay->status().held_destinations[0].reason == "HTTP 403");
  world.publisher.answer_all(Outcome::misconfigured);
  world.run_for(10ms);
  CHECK(world.store.count(Verdict::held) == 60);
  CHECK(world.recorder.buried.empty());
  const std::size_t sent = world.publisher.sent.size();
  world.add_rows(5);
  world.run_for(59s);
  CHECK(world.publisher.sent.size() == sent);
  for (int i = 0; i < 4; ++i) {
    world.add_rows(1);
    world.run_for(1s);
  }
  CHECK(world.publisher.sent.size() == sent + 1);
  world.publisher.answer(Outcome::confirmed);
  world.run_for(10ms);
  CHECK(world.relay->status().held_destinations.empty());
}

TEST_CASE("an isolation that stands in the database holds the circuit, also after a restart") {
  World world;
  world.store.circuit_held = true;
  world.add_rows(3);
  world.run_for(1h);
  CHECK(world.publisher.sent.empty());
  CHECK(world.relay->status().circuit == CircuitState::isolated);

  world.relay.emplace(world.options, world.store, world.publisher, world.receipts, world.clock,
                      world.recorder, 8);
  world.add_rows(3);
  world.run_for(1h);
  CHECK(world.publisher.sent.empty());
  CHECK(world.relay->status().circuit == CircuitState::isolated);

  world.store.circuit_held = false;
  world.run_for(2s);
  CHECK(world.relay->status().circuit == CircuitState::closed);
  CHECK_FALSE(world.publisher.sent.empty());
}

TEST_CASE("a paused relay leases and sends nothing, settles what travels, and goes on by itself") {
  World world;
  world.publisher.capacity = 1;
  world.add_rows(10);
  world.run_for(10ms);
  REQUIRE(world.publisher.sent.size() == 1);
  world.store.paused = true;
  world.run_for(2s);
  CHECK(world.relay->status().paused);
  CHECK(world.publisher.recalls > 0);
  CHECK(world.store.count(Verdict::released) == 9);
  world.publisher.answer(Outcome::confirmed);
  world.add_rows(3);
  world.run_for(1h);
  CHECK(world.publisher.sent.size() == 1);
  CHECK(world.store.count(Verdict::delivered) == 1);
  CHECK(world.relay->status().held == 0);

  world.store.paused = false;
  world.run_for(2s);
  CHECK_FALSE(world.relay->status().paused);
  CHECK(world.publisher.sent.size() == 2);
}

TEST_CASE("a paused relay that is stopped is drained at once: what is due stays for later") {
  World world;
  world.store.paused = true;
  world.add_rows(3);
  world.run_for(2s);
  world.relay->stop();
  world.run_for(10ms);
  CHECK(world.relay->drained());
}

TEST_CASE("an isolated relay that is stopped settles what travels and is then drained at once") {
  World world;
  world.publisher.capacity = 1;
  world.add_rows(10);
  world.run_for(10ms);
  REQUIRE(world.publisher.waiting.size() == 1);
  world.store.circuit_held = true;
  world.run_for(2s);
  world.add_rows(3);
  world.relay->stop();
  world.run_for(1s);
  CHECK_FALSE(world.relay->drained());
  world.publisher.answer(Outcome::confirmed);
  world.run_for(10ms);
  CHECK(world.relay->drained());
  CHECK(world.store.count(Verdict::delivered) == 1);
  CHECK(world.store.settled.size() == 10);
}

TEST_CASE("an idle isolated relay is drained as soon as it is stopped, before its first turn too") {
  World world;
  world.store.circuit_held = true;
  SUBCASE("after it has learned of the isolation") { world.run_for(2s); }
  SUBCASE("before") {}
  world.add_rows(3);
  world.relay->stop();
  world.run_for(10ms);
  CHECK(world.relay->drained());
}

TEST_CASE("a broker that asks to wait is left alone for as long, and held rows are given back") {
  World world;
  world.publisher.capacity = 1;
  world.add_rows(10);
  world.run_for(10ms);
  Receipt receipt;
  receipt.ticket = world.publisher.waiting.front().ticket;
  receipt.outcome = Outcome::throttled;
  receipt.sent = true;
  receipt.wait = 20s;
  world.publisher.waiting.clear();
  world.receipts.deliver(receipt);
  world.run_for(19s);
  CHECK(world.publisher.sent.size() == 1);
  CHECK(world.store.count(Verdict::released) == 9);
  REQUIRE(world.store.count(Verdict::retry) == 1);
  for (const Settlement& one : world.store.settled) {
    if (one.verdict == Verdict::retry) CHECK(one.delay >= 20s);
  }
}

}  // namespace
}  // namespace outbox
