// Seeds: worlds drawn at random, each with its own options and about two thirds of the faults.
#include "tests/sim/scenarios.h"

namespace outbox::sim {
namespace {

void run_seeds(const std::string& profile, std::uint64_t first, std::uint64_t count) {
  std::uint64_t failures = 0;
  for (std::uint64_t seed = first; seed < first + count && failures < 5; ++seed) {
    const Scenario scenario = draw(seed, profile);
    const Report report = run(scenario);
    if (!report.violation) continue;
    ++failures;
    FAIL_CHECK(describe(scenario, report));
  }
}

TEST_CASE("seeds of everything at once keep every promise") { run_seeds("swarm", 1, 5000); }

TEST_CASE("seeds with one kind of fault keep every promise") { run_seeds("single", 1, 2500); }

TEST_CASE("seeds without a fault keep every promise") { run_seeds("calm", 1, 500); }

TEST_CASE("seeds with default options keep every promise") { run_seeds("defaults", 1, 800); }

TEST_CASE("seeds of profile adr-087 keep every promise") { run_seeds("record", 1, 400); }

TEST_CASE("seeds whose settings change all the while keep every promise") {
  run_seeds("reload", 1, 800);
}

TEST_CASE("one seed is one run") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const Scenario scenario = draw(seed, "swarm");
    const Report first = run(scenario);
    const Report second = run(scenario);
    CHECK(first.hash == second.hash);
    CHECK(first.events == second.events);
    CHECK(first.hash != run(draw(seed + 1000, "swarm")).hash);
  }
}

}  // namespace
}  // namespace outbox::sim
