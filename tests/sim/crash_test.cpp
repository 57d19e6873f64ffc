// Relays that die, freeze and stop.
#include <algorithm>

#include "tests/sim/scenarios.h"

namespace outbox::sim {
namespace {

TEST_CASE("a killed relay's rows move at once where its death can be seen") {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    Scenario scenario = steady(300, seconds{60});
    scenario.seed = seed;
    scenario.relays = 2;
    scenario.transaction_rows = 50;
    scenario.broker_latency = milliseconds{400};
    World world(scenario);
    world.at(Time{} + seconds{30}, [&] { world.end_relay_for_good(0, Ending::crashed); });
    const Report report = world.run();
    require_clean(report);
    Duration worst{0};
    for (const auto& [row, inserted] : world.tally().inserted_at) {
      worst = std::max(worst, world.tally().accepted_at.at(row) - inserted);
    }
    CHECK(in_seconds(worst) < 6);
    CHECK(world.tally().repeats <= 256);
  }
}

TEST_CASE("a killed relay's rows move within the lease term where nobody can see its death") {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    Scenario scenario = steady(300, seconds{120});
    scenario.seed = seed;
    scenario.relays = 2;
    scenario.transaction_rows = 50;
    scenario.broker_latency = milliseconds{400};
    set(scenario.faults, Fault::lock_unknown);
    World world(scenario);
    world.at(Time{} + seconds{30}, [&] { world.end_relay_for_good(0, Ending::crashed); });
    require_clean(world.run());
    Duration worst{0};
    for (const auto& [row, inserted] : world.tally().inserted_at) {
      worst = std::max(worst, world.tally().accepted_at.at(row) - inserted);
    }
    CHECK(in_seconds(worst) < 30 + 6);
  }
}

TEST_CASE("a relay frozen past its lease sends nothing when it goes on") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Scenario scenario = steady(600, minutes{4});
    scenario.seed = seed;
    scenario.relays = 2;
    scenario.transaction_rows = 50;
    scenario.broker_latency = seconds{1};
    scenario.connections = 4;
    scenario.relay.ordering = seed % 2 == 0 ? Ordering::key : Ordering::none;
    scenario.keys = 20;
    World world(scenario);
    for (int i = 0; i < 4; ++i) {
      world.at(Time{} + seconds{20 + 50 * i},
               [&world, i] { world.freeze(static_cast<std::size_t>(i) % 2, seconds{31 + 7 * i}); });
    }
    require_clean(world.run());
    CHECK(world.tally().takeovers > 0);
    CHECK(world.tally().accepted_at.size() == 600);
  }
}

TEST_CASE("crash loops lose nothing and bury nobody") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Scenario scenario = steady(300, minutes{3});
    scenario.seed = seed;
    scenario.relays = 3;
    scenario.crash_gap = seconds{2};
    scenario.transaction_rows = 20;
    set(scenario.faults, Fault::crash);
    World world(scenario);
    require_clean(world.run());
    CHECK(world.tally().crashes > 20);
    CHECK(world.tally().deaths.empty());
    CHECK(world.tally().accepted_at.size() == 300);
  }
}

TEST_CASE("a row that kills relays dies alone, after few crashes") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Scenario scenario = steady(500, minutes{2});
    scenario.seed = seed;
    scenario.relays = 1 + seed % 3;
    scenario.survivors = scenario.relays;
    scenario.transaction_rows = 100;
    scenario.special_rows[123] = RowKind::killer;
    World world(scenario);
    require_clean(world.run());
    CHECK(world.tally().kills <= 7);
    REQUIRE(world.tally().deaths.size() == 1);
    CHECK(world.tally().deaths.front().row == 123);
    CHECK(world.tally().deaths.front().reason == DeadReason::crashed);
    CHECK(world.tally().accepted_at.size() == 499);
  }
}

TEST_CASE("a clean stop with a full window repeats nothing and leaves no lease") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Scenario scenario = steady(600, minutes{2});
    scenario.seed = seed;
    scenario.relays = 2;
    scenario.transaction_rows = 300;
    scenario.broker_latency = milliseconds{300};
    scenario.connections = 8;
    scenario.survivors = 2;
    scenario.drain_gap = seconds{4};
    scenario.relay.drain_on_stop = seed % 2 == 0;
    scenario.relay.ordering = seed % 3 == 0 ? Ordering::key : Ordering::none;
    scenario.keys = 30;
    set(scenario.faults, Fault::drain);
    World world(scenario);
    require_clean(world.run());
    CHECK_MESSAGE(world.tally().repeats == 0, "seed ", seed);
    CHECK(world.tally().accepted_at.size() == 600);
  }
}

TEST_CASE("a relay that stops drains what is due before it goes") {
  Scenario scenario = steady(400, seconds{30});
  scenario.transaction_rows = 400;
  World world(scenario);
  const Time stopped = Time{} + milliseconds{50};
  world.at(stopped, [&] { world.end_relay_for_good(0, Ending::clean); });
  world.at(Time{} + seconds{25}, [&] {
    CHECK(world.relay(0) == nullptr);
    std::size_t due = 0;
    for (const auto& [row, inserted] : world.tally().inserted_at) {
      if (inserted > stopped) continue;
      ++due;
      CHECK(world.tally().accepted_at.contains(row));
    }
    CHECK(due > 0);
    world.revive(0);
  });
  require_clean(world.run());
}

TEST_CASE("a database that comes back is used again within ten seconds") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Scenario scenario = steady(300, minutes{15});
    scenario.seed = seed;
    scenario.episodes = {lasting(Fault::store_unusable, minutes{2}, minutes{10})};
    World world(scenario);
    require_clean(world.run());
    const Time back = Time{} + minutes{12};
    const auto first = world.tally().first_acceptance_after(back);
    REQUIRE(first.has_value());
    CHECK(in_seconds(*first - back) < 10);
    CHECK(world.tally().deaths.empty());
  }
}

}  // namespace
}  // namespace outbox::sim
