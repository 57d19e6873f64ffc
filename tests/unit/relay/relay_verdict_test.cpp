// The state machine beside others that speak to the same broker: what it tells and believes.
#include <doctest/doctest.h>

#include "tests/unit/relay/relay_world.h"

namespace outbox {
namespace {

// A world whose store shares verdicts; the test plays the other relays.
struct SharedWorld : World {
  explicit SharedWorld(const RelayOptions& chosen = {}) : World(chosen) {
    store.next = [this](const TurnRequest& request) { return answer(request); };
  }

  Turn answer(const TurnRequest& request) {
    if (request.circuit) told.push_back(*request.circuit);
    if (request.lease.probe) asked_at.push_back(clock.now());
    if (break_ends) verdict.wait = std::max(*break_ends - clock.now(), Duration{0});
    TurnRequest asked = request;
    if (request.lease.probe && verdict.open && verdict.wait > Duration{0}) asked.lease.limit = 0;
    Turn turn = store.commit(asked);
    turn.verdict = verdict;
    return turn;
  }
  // As the store would after the news.
  void stand(std::uint64_t number, Duration wait) { verdict = {number, true, wait}; }

  // How long after that verdict's break the place of the probe is asked for.
  Duration courtesy(std::uint64_t number) {
    stand(number, 60s);
    break_ends = clock.now() + 60s;
    run_for(61s);
    REQUIRE_FALSE(asked_at.empty());
    return asked_at.front() - *break_ends;
  }

  SharedVerdict verdict;
  std::vector<CircuitNews> told;
  std::optional<Time> break_ends;
  std::vector<Time> asked_at;
};

TEST_CASE("a circuit that opens is told to the others, with its break") {
  SharedWorld world;
  world.open_circuit(500);
  REQUIRE(world.told.size() == 1);
  CHECK(world.told[0].kind == CircuitNews::Kind::opened);
  CHECK(world.told[0].open_for == 15s);
  CHECK_FALSE(world.told[0].reason.empty());
}

TEST_CASE("where nothing is shared nothing is told") {
  World world;
  world.open_circuit(500);
  for (const TurnRequest& request : world.store.requests) CHECK_FALSE(request.circuit.has_value());
}

TEST_CASE("another relay's verdict is believed after one failure of our own, for its break") {
  SharedWorld world;
  world.stand(3, 9s);
  world.publisher.capacity = 5;
  world.add_rows(50);
  world.run_for(10ms);
  REQUIRE(world.relay->status().circuit == CircuitState::closed);
  world.publisher.answer(Outcome::transport);
  world.run_for(10ms);
  CHECK(world.relay->status().circuit == CircuitState::open);
  CHECK(world.relay->status().next_probe <= 9s);
  CHECK(world.relay->status().next_probe > 8s);
  CHECK(world.told.empty());  // the others know
}

TEST_CASE("another relay's verdict is not believed by one that the broker answers") {
  SharedWorld world;
  world.run_for(10ms);
  world.stand(3, 9s);
  world.publisher.capacity = 6;
  world.add_rows(6);
  world.run_for(10ms);
  world.publisher.answer(Outcome::confirmed);
  world.publisher.answer(Outcome::transport);
  world.run_for(10ms);
  CHECK(world.relay->status().circuit == CircuitState::closed);
  world.publisher.answer_all(Outcome::transport);
  world.run_for(10ms);
  CHECK(world.relay->status().circuit == CircuitState::open);
  // What it has learned before holds no longer than the verdict.
  world.verdict = {4, false, 0s};
  world.run_for(1s);
  world.stand(5, 9s);
  world.run_for(1s);
  REQUIRE(world.relay->status().circuit == CircuitState::closed);
  world.add_rows(1);
  world.run_for(10ms);
  world.publisher.answer(Outcome::transport);
  world.run_for(10ms);
  CHECK(world.relay->status().circuit == CircuitState::open);
}

TEST_CASE("who has told of the break lets others probe first, who has told of none goes first") {
  SharedWorld first;
  first.stand(7, 60s);
  first.add_rows(6);
  first.publisher.capacity = 1;
  first.run_for(10ms);
  first.publisher.answer(Outcome::transport);
  CHECK(first.courtesy(7) < 32ms);
  SharedWorld last;
  last.store.next = [&](const TurnRequest& request) {
    if (request.circuit) last.stand(8, 60s);
    return last.answer(request);
  };
  last.open_circuit(500);
  CHECK(last.courtesy(8) >= 250ms);
}

TEST_CASE("a relay that starts while the circuit is open finds out with one row") {
  SharedWorld world;
  world.stand(3, 9s);
  world.add_rows(50);
  world.run_for(10ms);
  CHECK(world.publisher.sent.size() == 1);
  world.publisher.answer(Outcome::transport);
  world.run_for(1s);
  CHECK(world.publisher.sent.size() == 1);
  CHECK(world.relay->status().circuit == CircuitState::open);
}

TEST_CASE("one failure opens nothing when no verdict stands, or none any more") {
  SharedWorld world;
  world.stand(3, 9s);
  world.run_for(2s);
  world.verdict = {};
  world.run_for(2s);
  world.add_rows(50);
  world.run_for(10ms);
  world.publisher.answer(Outcome::transport);
  world.run_for(10ms);
  CHECK(world.relay->status().circuit == CircuitState::closed);
}

TEST_CASE("while another relay probes nothing is sent, and the next try is put off") {
  SharedWorld world;
  world.open_circuit(500);
  world.stand(1, 40s);
  const std::size_t before = world.publisher.sent.size();
  world.run_for(30s);
  CHECK(world.publisher.sent.size() == before);
  CHECK(world.relay->status().circuit == CircuitState::open);
  world.stand(1, 0s);
  world.run_for(5s);
  CHECK(world.publisher.sent.size() == before + 1);
}

TEST_CASE("a row that came back by itself is no probe: its place has to be asked for") {
  SharedWorld world;
  world.run_for(10ms);
  world.stand(1, 0s);
  world.publisher.capacity = 5;
  world.add_rows(5);
  world.run_for(10ms);
  REQUIRE(world.publisher.sent.size() == 5);
  world.publisher.answer(Outcome::transport);
  world.publisher.answer_all(Outcome::cancelled);
  world.stand(1, 30s);
  world.run_for(10s);
  CHECK(world.publisher.sent.size() == 5);
}

TEST_CASE("a verdict that another relay ended closes the circuit, and what waited is due") {
  SharedWorld world;
  world.open_circuit(500);
  world.stand(1, 10s);
  world.run_for(2s);
  REQUIRE(world.relay->status().circuit == CircuitState::open);
  world.verdict = {1, false, 0s};
  world.run_for(2s);
  CHECK(world.relay->status().circuit == CircuitState::closed);
  CHECK(world.store.requests.back().lease.recovered > 0);
  CHECK(world.told.size() == 1);  // that it had opened
}

TEST_CASE("a probe that got through is told under the verdict it was sent under") {
  SharedWorld world;
  world.open_circuit(500);
  world.stand(7, 0s);
  world.run_for(20s);
  REQUIRE(world.relay->status().circuit == CircuitState::half_open);
  world.publisher.answer(Outcome::confirmed);
  world.run_for(10ms);
  REQUIRE(world.told.size() == 2);
  CHECK(world.told[1].kind == CircuitNews::Kind::closed);
  CHECK(world.told[1].verdict == 7);
}

TEST_CASE("a probe that failed is told as another break") {
  SharedWorld world;
  world.open_circuit(500);
  world.stand(7, 0s);
  world.run_for(20s);
  world.publisher.answer(Outcome::transport);
  world.run_for(10ms);
  REQUIRE(world.told.size() == 2);
  CHECK(world.told[1].kind == CircuitNews::Kind::opened);
  CHECK(world.told[1].open_for == 15s);
  CHECK(world.told[1].verdict == 7);
}

TEST_CASE("news are told at once, and what is left of them when their turn failed") {
  SharedWorld world;
  bool fails = true;
  world.store.next = [&](const TurnRequest& request) {
    if (request.circuit && std::exchange(fails, false)) {
      world.told.push_back(*request.circuit);
      return without_success(TurnStatus::failed, "connection lost");
    }
    return world.answer(request);
  };
  world.open_circuit(500);
  world.run_for(1s);
  REQUIRE(world.told.size() == 2);
  CHECK(world.told[0].open_for == 15s);
  CHECK(world.told[1].open_for == 15s - 50ms);
}

}  // namespace
}  // namespace outbox
