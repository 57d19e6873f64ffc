// Outages of the broker, long and short, under a virtual clock.
#include <algorithm>

#include "tests/sim/scenarios.h"

namespace outbox::sim {
namespace {

constexpr Duration kBefore = minutes{2};
constexpr Duration kOutage = minutes{90};
constexpr Duration kBreakMin = seconds{12};  // 15 s less 20 %

Scenario long_outage(Fault kind) {
  Scenario scenario = steady(3000, kBefore + kOutage);
  scenario.episodes = {lasting(kind, kBefore, kOutage)};
  return scenario;
}

std::size_t sends_within(const Tally& tally, Time from, Time to) {
  return static_cast<std::size_t>(
      std::count_if(tally.send_times.begin(), tally.send_times.end(),
                    [&](Time when) { return when >= from && when < to; }));
}

void require_survived(const World& world, const Report& report) {
  const Tally& tally = world.tally();
  require_clean(report);
  CHECK(tally.deaths.empty());
  CHECK(tally.accepted_at.size() == tally.rows);
  CHECK(tally.repeats == 0);
  CHECK(tally.openings == 1);
  CHECK(tally.charges == tally.failed_receipts + tally.turned_away);
  // The first failures, then one probe a break.
  const Time begin = Time{} + kBefore;
  const std::size_t breaks = static_cast<std::size_t>(kOutage / kBreakMin);
  CHECK(sends_within(tally, begin, begin + kOutage) <= breaks + 64);
  CHECK(in_seconds(report.to_rest) < 18 + 5 + 60);
}

TEST_CASE("90 minutes of refused connections bury nobody, and all is delivered soon after") {
  World world(long_outage(Fault::refused_connections));
  const Report report = world.run();
  require_survived(world, report);
}

TEST_CASE("90 minutes without any answer bury nobody, and all is delivered soon after") {
  World world(long_outage(Fault::black_hole));
  const Report report = world.run();
  require_survived(world, report);
}

TEST_CASE("after an outage the first publish comes within a break and a publish time-out") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Scenario scenario = steady(200, minutes{10});
    scenario.seed = seed;
    scenario.episodes = {lasting(Fault::black_hole, minutes{2}, minutes{6})};
    World world(scenario);
    require_clean(world.run());
    const Time back = Time{} + minutes{8};
    const auto first = world.tally().first_acceptance_after(back);
    REQUIRE(first.has_value());
    CHECK(in_seconds(*first - back) < 15 * 1.2 + 5 + 1);
  }
}

TEST_CASE("what waited because of an outage is delivered within a minute, whoever settled it") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Scenario scenario = steady(seed % 4 < 2 ? 600 : 8, minutes{20});
    scenario.seed = seed;
    scenario.relays = 2;
    scenario.first_row = minutes{3};
    scenario.episodes = {lasting(Fault::black_hole, minutes{2}, minutes{18})};
    World world(scenario);
    const std::size_t doomed = seed % 2;
    world.at(Time{} + minutes{20} - seconds{1},
             [&] { world.end_relay_for_good(doomed, Ending::crashed); });
    const Report report = world.run();
    require_clean(report);
    CHECK(world.tally().deaths.empty());
    CHECK_MESSAGE(in_seconds(report.to_rest) < 18 + 5 + 60, "seed ", seed);
  }
}

// 30 % of the attempts are accepted, and the ladder is short.
std::size_t buried_in_a_brownout(std::uint64_t seed, bool guard, WhileOpen while_open) {
  Scenario scenario = steady(1200, minutes{40});
  scenario.seed = seed;
  scenario.relay.retry.outage_guard = guard;
  scenario.relay.breaker.while_open = while_open;
  scenario.relay.retry.redelivery_intervals.clear();
  Episode brownout = lasting(Fault::brownout, minutes{2}, minutes{38});
  brownout.share = 0.7;
  scenario.episodes = {brownout};
  World world(scenario);
  require_clean(world.run());
  return world.tally().deaths.size();
}

TEST_CASE("a brown-out that accepts 30 % buries nobody, thanks to the outage guard") {
  std::size_t without_guard = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    CHECK(buried_in_a_brownout(seed, true, WhileOpen::suspend) == 0);
    CHECK(buried_in_a_brownout(seed, true, WhileOpen::charge) == 0);
    without_guard += buried_in_a_brownout(seed, false, WhileOpen::charge);
  }
  CHECK(without_guard > 10);
}

TEST_CASE("one dead destination among ten holds back nobody else, and its rows live") {
  Scenario scenario = steady(4000, hours{2});
  scenario.destinations = 10;
  Episode dead = lasting(Fault::dead_destination, minutes{1}, hours{2});
  dead.destination = 3;
  scenario.episodes = {dead};
  World world(scenario);
  const Report report = world.run();
  require_clean(report);
  const Tally& tally = world.tally();
  CHECK(tally.deaths.empty());
  CHECK(tally.accepted_at.size() == tally.rows);
  Duration worst{0};
  for (const auto& [number, row] : world.table().rows()) {
    if (row.destination == "d3") continue;
    worst = std::max(worst, tally.accepted_at.at(number) - row.occurred);
  }
  CHECK(in_seconds(worst) < 60);
}

TEST_CASE("a 403 for everything holds the destination: nothing dies, all goes when it is lifted") {
  Scenario scenario = steady(2000, hours{2});
  scenario.episodes = {lasting(Fault::misconfigured, minutes{1}, hours{2} - minutes{1})};
  World world(scenario);
  const Report report = world.run();
  require_clean(report);
  const Tally& tally = world.tally();
  CHECK(tally.deaths.empty());
  CHECK(tally.accepted_at.size() == tally.rows);
  CHECK(tally.openings == 0);
  // Twenty answers until it is held, then one probe a minute.
  CHECK(sends_within(tally, Time{} + minutes{1}, Time{} + hours{2}) < 2 * 60 + 120);
  CHECK(in_seconds(report.to_rest) < 60 + 60);
}

TEST_CASE("a destination that answers 403 is held, and the nine others are not") {
  Scenario scenario = steady(3000, hours{1});
  scenario.destinations = 10;
  Episode wrong = lasting(Fault::misconfigured, minutes{5}, minutes{50});
  wrong.destination = 3;
  scenario.episodes = {wrong};
  World world(scenario);
  require_clean(world.run());
  const Tally& tally = world.tally();
  CHECK(tally.deaths.empty());
  CHECK(tally.openings == 0);
  CHECK(tally.accepted_at.size() == tally.rows);
  for (const auto& [number, row] : world.table().rows()) {
    const Duration lag = tally.accepted_at.at(number) - row.occurred;
    if (row.destination != "d3") CHECK(in_seconds(lag) < 3);
  }
}

TEST_CASE("a throttling broker is left alone for as long as it asks") {
  Scenario scenario = steady(600, minutes{20});
  Episode throttle = lasting(Fault::throttle, minutes{5}, minutes{10});
  throttle.wait = seconds{60};
  scenario.episodes = {throttle};
  World world(scenario);
  const Report report = world.run();
  require_clean(report);
  CHECK(world.tally().deaths.empty());
  const Time begin = Time{} + minutes{5};
  CHECK(sends_within(world.tally(), begin, begin + minutes{10}) <= 10 + 64);
}

}  // namespace
}  // namespace outbox::sim
