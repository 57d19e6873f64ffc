// The state machine: turns, leases, order, drain.
#include <doctest/doctest.h>

#include "tests/unit/relay/relay_world.h"

namespace outbox {
namespace {

TEST_CASE("a leased row is sent once and settled as delivered") {
  World world;
  world.add_rows(1);
  world.run_for(100ms);
  REQUIRE(world.publisher.sent == std::vector<std::string>{"id-1"});
  world.publisher.answer(Outcome::confirmed);
  world.run_for(100ms);
  REQUIRE(world.store.settled.size() == 1);
  CHECK(world.store.settled[0].verdict == Verdict::delivered);
  CHECK(world.store.settled[0].lease == 1);
  CHECK(world.relay->status().held == 0);
}

TEST_CASE("one turn settles what was learned and leases the next batch") {
  World world;
  world.add_rows(400);
  world.run_for(100ms);
  CHECK(world.publisher.sent.size() == 200);
  const std::size_t turns = world.store.requests.size();
  for (int i = 0; i < 100; ++i) world.publisher.answer(Outcome::confirmed);
  world.step();
  CHECK(world.store.requests.size() == turns + 1);
  CHECK(world.store.settled.size() == 100);
  CHECK(world.publisher.sent.size() == 300);
}

TEST_CASE("no more rows are held than in_flight_max") {
  RelayOptions options;
  options.in_flight_max = 150;
  World world(options);
  world.publisher.capacity = 20;
  world.add_rows(1000);
  world.run_for(1s);
  CHECK(world.relay->status().held <= 150);
  CHECK(world.publisher.sent.size() == 20);
}

TEST_CASE("a row whose lease ran out while the turn took its time is not sent but given back") {
  World world;
  world.add_rows(3);
  world.store.next = [&](const TurnRequest& request) {
    Turn turn = world.store.commit(request);
    if (!turn.leased.empty()) world.clock.advance(31s);
    return turn;
  };
  world.step();
  CHECK(world.publisher.sent.empty());
  world.store.next = nullptr;
  world.run_for(100ms);
  CHECK(world.store.count(Verdict::released) == 3);
  CHECK(world.publisher.sent.empty());
}

TEST_CASE("a row that could end after its lease is not started") {
  World world;
  world.publisher.capacity = 0;
  world.add_rows(1);
  world.step();
  world.store.next = [&](const TurnRequest&) {
    return without_success(TurnStatus::failed, "disk on fire");
  };
  world.clock.advance(22s + 1ms);  // 30 s - 5 s - 10 %
  world.publisher.capacity = 10;
  world.step();
  CHECK(world.publisher.sent.empty());
}

TEST_CASE("a lease is renewed at a third of its term") {
  World world;
  world.add_rows(1);
  world.run_for(9s);
  const auto renewals = [&] {
    std::size_t found = 0;
    for (const TurnRequest& request : world.store.requests) found += request.renew ? 1 : 0;
    return found;
  };
  CHECK(renewals() == 0);
  world.run_for(2s);
  CHECK(renewals() == 1);
  world.run_for(20s);
  CHECK(renewals() >= 2);
  CHECK(world.relay->status().held == 1);
}

TEST_CASE("leases that may have ended are not revived by a late renewal") {
  World world;
  world.publisher.capacity = 1;
  world.add_rows(3);
  world.step();
  REQUIRE(world.publisher.sent.size() == 1);
  world.clock.advance(31s);  // frozen past the term: the next turn renews, but rows may be gone
  world.publisher.capacity = 10;
  world.run_for(100ms);
  CHECK(world.publisher.sent.size() == 1);
  CHECK(world.store.count(Verdict::released) == 2);
}

TEST_CASE("a publish that was given back unsent goes again, unless its lease has ended since") {
  World world;
  world.add_rows(1);
  world.run_for(10ms);
  world.publisher.answer(Outcome::cancelled);
  world.run_for(10ms);
  CHECK(world.publisher.sent.size() == 2);
  world.clock.advance(31s);
  world.publisher.answer(Outcome::cancelled);
  world.run_for(100ms);
  CHECK(world.publisher.sent.size() == 2);
  CHECK(world.store.count(Verdict::released) == 1);
}

TEST_CASE("rows of one key travel one at a time, in order") {
  World world(by_key());
  world.add_rows(3, "a");
  world.add_rows(1, "b");
  world.run_for(10ms);
  CHECK(world.publisher.sent == std::vector<std::string>{"id-1", "id-4"});
  world.publisher.answer(Outcome::confirmed);
  world.run_for(10ms);
  CHECK(world.publisher.sent == std::vector<std::string>{"id-1", "id-4", "id-2"});
}

TEST_CASE("when the head of a key must wait, its followers are given back in the same turn") {
  World world(by_key());
  world.add_rows(3, "a");
  world.run_for(10ms);
  world.publisher.answer(Outcome::transport);
  world.run_for(10ms);
  REQUIRE(world.store.settled.size() == 3);
  CHECK(world.store.settled[0].verdict == Verdict::retry);
  CHECK(world.store.settled[1].verdict == Verdict::released);
  CHECK(world.store.settled[2].verdict == Verdict::released);
  CHECK(world.publisher.sent.size() == 1);
}

TEST_CASE("a dead head blocks its key, or is passed, as configured") {
  for (const bool blocks : {true, false}) {
    RelayOptions options = by_key();
    options.dead_blocks_key = blocks;
    World world(options);
    world.add_rows(2, "a");
    world.run_for(10ms);
    world.publisher.answer(Outcome::refused);
    world.run_for(10ms);
    CHECK(world.publisher.sent.size() == (blocks ? 1 : 2));
    CHECK(world.recorder.buried == std::vector<DeadReason>{DeadReason::permanent});
  }
}

TEST_CASE("a travelling row leased anew is not given back with those that waited behind it") {
  World world(by_key());
  world.add_rows(2, "a");
  world.run_for(10ms);
  const Message travelling = *world.publisher.waiting.front().message;
  world.store.next = [&](const TurnRequest& request) {
    world.store.rows.push_back(travelling);
    Turn turn = world.store.commit(request);
    turn.leases_lost = true;
    return turn;
  };
  world.relay->hint();
  world.step();
  world.store.next = nullptr;
  world.run_for(100ms);
  CHECK(world.store.count(Verdict::released) == 1);
  CHECK(world.publisher.sent.size() == 1);
  world.publisher.answer(Outcome::confirmed);
  world.run_for(100ms);
  CHECK(world.store.count(Verdict::delivered) == 1);
}

TEST_CASE("a turn of unknown outcome is repeated with its number and settlements, then the rest") {
  World world;
  world.add_rows(2);
  world.run_for(10ms);
  world.publisher.answer(Outcome::confirmed);
  int failures = 0;
  world.store.next = [&](const TurnRequest&) {
    ++failures;
    return without_success(TurnStatus::failed, "answer lost");
  };
  world.run_for(20ms);
  REQUIRE(failures == 1);
  const TurnRequest first = world.store.requests.back();
  world.publisher.answer(Outcome::confirmed);
  world.store.next = nullptr;
  world.run_for(200ms);
  REQUIRE(world.store.settled.size() == 2);
  const auto& turns = world.store.settled_in_turn;
  std::vector<std::uint64_t> numbers;
  for (std::size_t i = 0; i < turns.size(); ++i) {
    if (!turns[i].empty()) {
      CHECK(turns[i].size() == 1);
      numbers.push_back(world.store.requests[i].number);
    }
  }
  CHECK(numbers == std::vector<std::uint64_t>{first.number, first.number, first.number + 1});
}

TEST_CASE("a row behind one whose verdict is not written yet is given back, not sent") {
  World world(by_key());
  world.add_rows(1, "a");
  world.run_for(10ms);
  world.store.next = [](const TurnRequest&) {
    return without_success(TurnStatus::failed, "answer lost");
  };
  world.add_rows(2, "a");
  world.step();  // asks for rows; whether it was applied is unknown
  world.publisher.answer(Outcome::transport);
  world.step();
  world.store.next = nullptr;  // the repeat brings the rows behind the one that must wait
  world.run_for(200ms);
  CHECK(world.publisher.sent == std::vector<std::string>{"id-1"});
  CHECK(world.store.count(Verdict::retry) == 1);
  CHECK(world.store.count(Verdict::released) == 2);
}

TEST_CASE("a row leased again while it travels keeps travelling under the new lease") {
  World world;
  world.add_rows(1);
  world.run_for(10ms);
  Message again;
  again.row = "1";
  again.id = "id-1";
  world.clock.advance(31s);
  world.store.rows.push_back(again);
  world.relay->hint();
  world.run_for(100ms);
  CHECK(world.publisher.sent.size() == 1);
  world.publisher.answer(Outcome::confirmed);
  world.run_for(100ms);
  REQUIRE(world.store.settled.size() == 1);
  CHECK(world.store.settled[0].lease == world.store.epoch - 1);
}

TEST_CASE("nothing is sent while the database is not what it should be") {
  World world;
  world.publisher.capacity = 1;
  world.add_rows(3);
  world.step();
  world.store.next = [](const TurnRequest&) {
    return without_success(TurnStatus::unusable, "the file was replaced");
  };
  world.run_for(2s);
  world.publisher.answer(Outcome::confirmed);
  world.publisher.capacity = 10;
  world.run_for(3s);
  CHECK(world.publisher.sent.size() == 1);
  CHECK_FALSE(world.relay->status().store_usable);
  CHECK(world.relay->status().store_error == "the file was replaced");
}

TEST_CASE("stopping leases until nothing is due, then everything is settled") {
  World world;
  world.add_rows(300);
  world.run_for(10ms);
  world.relay->stop();
  for (int i = 0; i < 10 && !world.relay->drained(); ++i) {
    world.publisher.answer_all(Outcome::confirmed);
    world.run_for(10ms);
  }
  CHECK(world.relay->drained());
  CHECK(world.store.count(Verdict::delivered) == 300);
}

Turn swapped_file(const TurnRequest&) {
  return without_success(TurnStatus::unusable, "the file was replaced");
}

TEST_CASE("a relay that holds nothing is drained at once while the store is unusable") {
  World world;
  world.add_rows(3);
  world.store.next = swapped_file;
  SUBCASE("after many vain turns") { world.run_for(1h); }
  SUBCASE("before the first turn") {}
  CHECK_FALSE(world.relay->drained());
  world.relay->stop();
  CHECK_FALSE(world.relay->drained());
  world.run_for(1ms);
  CHECK(world.relay->drained());
}

TEST_CASE("a store that has become usable again just before the stop is drained") {
  World world;
  world.store.next = swapped_file;
  world.run_for(1h);
  world.store.next = {};
  world.add_rows(3);
  world.relay->stop();
  world.run_for(1ms);
  CHECK_FALSE(world.relay->drained());
  world.publisher.answer_all(Outcome::confirmed);
  world.run_for(10ms);
  CHECK(world.relay->drained());
  CHECK(world.store.count(Verdict::delivered) == 3);
}

TEST_CASE("a stopped relay that holds rows waits for an unusable store, and settles them") {
  World world;
  world.add_rows(1);
  world.run_for(1ms);
  world.store.next = swapped_file;
  world.relay->stop();
  world.run_for(1s);
  CHECK_FALSE(world.relay->drained());
  world.publisher.answer(Outcome::confirmed);
  world.run_for(10s);
  CHECK_FALSE(world.relay->drained());
  world.store.next = {};
  world.run_for(3s);
  CHECK(world.relay->drained());
  CHECK(world.store.count(Verdict::delivered) == 1);
}

TEST_CASE("a stopped relay does not end on a turn that may have leased rows it does not know of") {
  World world;
  world.add_rows(3);
  world.store.next = [](const TurnRequest&) {
    return without_success(TurnStatus::failed, "disk I/O error");
  };
  world.run_for(1ms);
  world.store.next = swapped_file;
  world.relay->stop();
  world.run_for(10s);
  CHECK_FALSE(world.relay->drained());
}

TEST_CASE("rows committed while the relay drains are drained, too") {
  World world;
  world.add_rows(10);
  world.run_for(10ms);
  world.relay->stop();
  world.run_for(100ms);
  CHECK_FALSE(world.relay->drained());
  world.add_rows(5);
  for (int i = 0; i < 15; ++i) {
    world.publisher.answer(Outcome::confirmed);
    world.run_for(10ms);
  }
  CHECK(world.relay->drained());
  CHECK(world.store.count(Verdict::delivered) == 15);
}

TEST_CASE("an abandoned drain gives back what does not travel and waits for what does") {
  World world;
  world.publisher.capacity = 1;
  world.add_rows(300);
  world.run_for(10ms);
  world.relay->stop();
  world.relay->abandon();
  world.run_for(10ms);
  CHECK_FALSE(world.relay->drained());
  CHECK(world.store.count(Verdict::released) == world.relay->status().held + 198);
  world.publisher.answer(Outcome::confirmed);
  world.run_for(10ms);
  CHECK(world.relay->drained());
  CHECK(world.store.count(Verdict::delivered) == 1);
}

}  // namespace
}  // namespace outbox
