// The retry ladder at work, against models written for these cases alone.
#include <map>
#include <set>
#include <vector>

#include "tests/sim/scenarios.h"

namespace outbox::sim {
namespace {

// ADR-087: five attempts, 10 s doubling, short-circuited ones included; the fifth failure is death.
Duration record_wait(std::size_t failures) {
  Duration wait = seconds{10};
  for (std::size_t i = 1; i < failures; ++i) wait *= 2;
  return std::min<Duration>(wait, seconds{300});
}

constexpr Duration kPoll = seconds{2};
constexpr Duration kStart = minutes{5};
constexpr Duration kLength = minutes{10};
constexpr Duration kBreakMax = seconds{18};

Scenario record_outage(Jitter jitter) {
  Scenario scenario = steady(900, kStart + kLength + minutes{5});
  scenario.relay = record_options();
  scenario.relay.retry.jitter = jitter;
  scenario.episodes = {lasting(Fault::refused_connections, kStart, kLength)};
  return scenario;
}

std::map<RowNumber, std::vector<Tally::Failure>> failures_by_row(const Tally& tally) {
  std::map<RowNumber, std::vector<Tally::Failure>> result;
  for (const Tally::Failure& failure : tally.failures) result[failure.row].push_back(failure);
  return result;
}

TEST_CASE("profile adr-087: attempts burn and rows die exactly as the record's ladder says") {
  World world(record_outage(Jitter::none));
  const Report report = world.run();
  require_clean(report);
  std::set<RowNumber> dead;
  for (const Tally::Death& death : world.tally().deaths) {
    CHECK(death.reason == DeadReason::attempts_exhausted);
    dead.insert(death.row);
  }
  for (const auto& [row, failures] : failures_by_row(world.tally())) {
    CAPTURE(row);
    CHECK(failures.size() <= 5);
    CHECK(dead.contains(row) == (failures.size() == 5));
    for (std::size_t i = 0; i < failures.size(); ++i) {
      CHECK(failures[i].counts);
      if (i == 4) break;
      CHECK(failures[i].delay == record_wait(i + 1));
      if (i + 1 == failures.size()) continue;
      const Duration waited = failures[i + 1].when - failures[i].when;
      CHECK(waited >= record_wait(i + 1));
      CHECK(waited < record_wait(i + 1) + kPoll + seconds{1});
    }
  }
  // Which rows the outage kills follows from when they came: the fifth attempt comes 150 s after
  // the first, and a little later for the polls in between.
  const Time begin = Time{} + kStart;
  const Time end = begin + kLength;
  std::size_t certain = 0;
  for (const auto& [row, inserted] : world.tally().inserted_at) {
    CAPTURE(row);
    const bool surely_dies = inserted > begin + seconds{1} && inserted + seconds{150 + 15} < end;
    const bool surely_lives =
        inserted + seconds{1} < begin || inserted + seconds{150} > end + kBreakMax + seconds{1};
    certain += surely_dies || surely_lives ? 1 : 0;
    if (surely_dies) CHECK(dead.contains(row));
    if (surely_lives) CHECK(!dead.contains(row));
  }
  CHECK(certain > 800);
  CHECK(dead.size() > 200);
}

TEST_CASE("profile adr-087: each wait is jittered by at most a fifth, after the cap") {
  World world(record_outage(Jitter::proportional));
  require_clean(world.run());
  std::size_t seen = 0;
  for (const auto& [row, failures] : failures_by_row(world.tally())) {
    CAPTURE(row);
    for (std::size_t i = 0; i < failures.size() && i < 4; ++i) {
      const double share = in_seconds(failures[i].delay) / in_seconds(record_wait(i + 1));
      CHECK(share >= 0.8);
      CHECK(share <= 1.2);
      ++seen;
    }
  }
  CHECK(seen > 1000);
}

TEST_CASE("a row that alone fails climbs the whole ladder, second level included, and dies") {
  Scenario scenario = steady(3000, hours{3});
  scenario.relay.retry.jitter = Jitter::none;
  scenario.special_rows[50] = RowKind::cursed;
  World world(scenario);
  require_clean(world.run());
  REQUIRE(world.tally().deaths.size() == 1);
  const Tally::Death death = world.tally().deaths.front();
  CHECK(death.row == 50);
  CHECK(death.reason == DeadReason::attempts_exhausted);
  // Failures between which nothing else was accepted don't count, and there may be some.
  CHECK(world.table().row(50).history.counted == 9);
  CHECK(world.table().row(50).history.retry_count < 15);
  // 1 + 2 + 4 + 8 + 16 s, then a minute, ten minutes and an hour, each within a tenth.
  const double lived = in_seconds(death.when - world.table().row(50).occurred);
  CHECK(lived > 31 + 0.9 * (60 + 600 + 3600));
  CHECK(lived < 31 + 1.1 * (60 + 600 + 3600) + 30);
  CHECK(world.tally().accepted_at.size() == 2999);
}

TEST_CASE("a row whose route is wrong for a day, while its destination takes others, dies of it") {
  Scenario scenario = steady(4000, hours{26});
  scenario.special_rows[50] = RowKind::misplaced;
  World world(scenario);
  require_clean(world.run());
  REQUIRE(world.tally().deaths.size() == 1);
  const Tally::Death death = world.tally().deaths.front();
  CHECK(death.row == 50);
  CHECK(death.reason == DeadReason::misconfigured);
  const Duration lived = death.when - world.table().row(50).occurred;
  CHECK(lived >= hours{24});
  CHECK(lived < hours{24} + minutes{10});
  CHECK(world.tally().openings == 0);
}

TEST_CASE("retry_count is what failed on the wire and what an open circuit turned away") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Scenario scenario = steady(400, minutes{10});
    scenario.seed = seed;
    scenario.attempt_fault_share = 0.05;
    set(scenario.faults, Fault::transport);
    set(scenario.faults, Fault::accepted_unknown);
    set(scenario.faults, Fault::conflict);
    set(scenario.faults, Fault::throttle);
    scenario.relay.breaker.while_open = seed % 2 == 0 ? WhileOpen::charge : WhileOpen::suspend;
    scenario.episodes = {lasting(Fault::refused_connections, minutes{2}, minutes{1}),
                         lasting(Fault::black_hole, minutes{5}, minutes{2})};
    World world(scenario);
    require_clean(world.run());
    CHECK(world.tally().charges == world.tally().failed_receipts + world.tally().turned_away);
    std::uint64_t sum = 0;
    for (const auto& [number, row] : world.table().rows()) sum += row.history.retry_count;
    CHECK(sum == world.tally().charges);
  }
}

}  // namespace
}  // namespace outbox::sim
