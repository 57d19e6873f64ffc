// Rows that are not like the others, among those that are.
#include <algorithm>
#include <vector>

#include "tests/sim/scenarios.h"

namespace outbox::sim {
namespace {

Duration worst_lag(const World& world) {
  Duration worst{0};
  for (const auto& [row, accepted] : world.tally().accepted_at) {
    worst = std::max(worst, accepted - world.tally().inserted_at.at(row));
  }
  return worst;
}

TEST_CASE("each bad row ends where it belongs, and its neighbours are delivered") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Scenario scenario = steady(400, minutes{3});
    scenario.seed = seed;
    scenario.relays = 1 + seed % 2;
    scenario.transaction_rows = 20;
    scenario.special_rows = {{10, RowKind::poison},
                             {20, RowKind::oversized},
                             {30, RowKind::defect},
                             {40, RowKind::trigger}};
    World world(scenario);
    require_clean(world.run());
    const Tally& tally = world.tally();
    CHECK(tally.deaths.size() == 3);
    CHECK(tally.dead(DeadReason::permanent) == 1);
    CHECK(tally.dead(DeadReason::oversized) == 1);
    CHECK(tally.dead(DeadReason::invalid_row) == 1);
    CHECK(tally.accepted_at.size() == 397);
    CHECK(tally.repeats == 0);
    CHECK(in_seconds(worst_lag(world)) < 2);
  }
}

TEST_CASE("a dead head stops its key and no other") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Scenario scenario = steady(400, minutes{3});
    scenario.seed = seed;
    scenario.relay.ordering = Ordering::key;
    scenario.relay.dead_blocks_key = seed % 2 == 0;
    scenario.keys = 20;
    scenario.special_rows = {{25, RowKind::poison}};
    World world(scenario);
    require_clean(world.run());
    const Row& bad = world.table().row(25);
    for (const auto& [number, row] : world.table().rows()) {
      const bool behind = bad.key && row.key == bad.key && number > 25;
      const bool stopped = number == 25 || (behind && scenario.relay.dead_blocks_key);
      CHECK((row.status == Status::processed) == !stopped);
    }
    CHECK(in_seconds(worst_lag(world)) < 3);
  }
}

TEST_CASE("a row with a far not_before waits for it, and nobody waits for the row") {
  Scenario scenario = steady(200, minutes{3});
  scenario.special_rows = {{7, RowKind::future}};
  World world(scenario);
  require_clean(world.run());
  CHECK(world.table().row(7).status == Status::pending);
  CHECK(world.tally().accepted_at.size() == 199);
  CHECK(in_seconds(worst_lag(world)) < 2);
}

TEST_CASE("without faults nothing is sent twice, and each key keeps its order") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Scenario scenario = steady(500, seconds{60});
    scenario.seed = seed;
    scenario.relays = 1 + seed % 3;
    scenario.survivors = scenario.relays;
    scenario.keys = 1 + seed % 40;
    scenario.transaction_rows = 60;
    scenario.relay.ordering = Ordering::key;
    World world(scenario);
    require_clean(world.run());
    CHECK(world.tally().sends == 500);
    CHECK(world.tally().repeats == 0);
    CHECK(world.tally().failures.empty());
  }
}

TEST_CASE("an idle relay takes one turn a poll") {
  Scenario scenario = steady(1, minutes{10});
  World world(scenario);
  require_clean(world.run());
  CHECK(world.tally().turns < 10 * 60 + 60);
  CHECK(world.tally().steps < 2 * (10 * 60 + 60));
}

}  // namespace
}  // namespace outbox::sim
