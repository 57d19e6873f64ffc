// Several relays and one dead broker: what they learn of it together.
#include <algorithm>

#include "tests/sim/scenarios.h"

namespace outbox::sim {
namespace {

constexpr Duration kBefore = minutes{2};
constexpr Duration kOutage = minutes{30};
constexpr Duration kBreakMin = seconds{12};  // 15 s less 20 %
constexpr std::size_t kRelays = 3;

Scenario outage_of_three(Fault kind, std::uint64_t seed) {
  Scenario scenario = steady(3000, kBefore + kOutage + minutes{2});
  scenario.seed = seed;
  scenario.relays = kRelays;
  scenario.survivors = kRelays;
  scenario.episodes = {lasting(kind, kBefore, kOutage)};
  return scenario;
}

std::size_t probes_of(const Tally& tally) {
  const Time begin = Time{} + kBefore + minutes{1};  // all have opened
  const Time end = Time{} + kBefore + kOutage;
  return static_cast<std::size_t>(
      std::count_if(tally.send_times.begin(), tally.send_times.end(),
                    [&](Time when) { return when >= begin && when < end; }));
}

TEST_CASE("three relays send one probe a break between them") {
  const auto breaks = static_cast<std::size_t>((kOutage - minutes{1}) / kBreakMin);
  for (const Fault kind : {Fault::refused_connections, Fault::black_hole}) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      World world(outage_of_three(kind, seed));
      const Report report = world.run();
      require_clean(report);
      CHECK(world.tally().deaths.empty());
      CHECK(world.tally().accepted_at.size() == world.tally().rows);
      CHECK_MESSAGE(probes_of(world.tally()) <= breaks + 1, "seed ", seed);
      CHECK_MESSAGE(probes_of(world.tally()) >= breaks / 2, "seed ", seed);
      CHECK_MESSAGE(in_seconds(report.to_rest) < 18 + 5 + 60, "seed ", seed);
    }
  }
}

TEST_CASE("relays that share nothing send one probe a break each") {
  Scenario scenario = outage_of_three(Fault::refused_connections, 1);
  scenario.shared_verdicts = false;
  World world(scenario);
  require_clean(world.run());
  const auto breaks = static_cast<std::size_t>((kOutage - minutes{1}) / (kBreakMin * 3 / 2));
  CHECK(probes_of(world.tally()) > 2 * breaks);
}

TEST_CASE("a relay that dies while it probes for all is replaced by another one") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    Scenario scenario = outage_of_three(Fault::black_hole, seed);
    World world(scenario);
    const Time near_the_end = Time{} + kBefore + kOutage - seconds{20};
    world.at(near_the_end, [&] { world.end_relay_for_good(0, Ending::crashed); });
    world.at(near_the_end + seconds{1}, [&] { world.end_relay_for_good(1, Ending::crashed); });
    const Report report = world.run();
    require_clean(report);
    const auto first = world.tally().first_acceptance_after(Time{} + kBefore + kOutage);
    REQUIRE(first.has_value());
    // A break, or the time that a probe's place was kept for the dead; then the probe.
    CHECK_MESSAGE(in_seconds(*first - (Time{} + kBefore + kOutage)) < 18 + 10 + 5 + 2, "seed ",
                  seed);
  }
}

}  // namespace
}  // namespace outbox::sim
