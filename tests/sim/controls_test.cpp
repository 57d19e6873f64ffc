// Negative controls: the checks see seeded bugs, in the model's world and in what a relay says.
#include <set>

#include "tests/sim/scenarios.h"

namespace outbox::sim {
namespace {

// The first invariant that gives the bug away, or nothing.
std::string caught_by(Bug bug, std::uint64_t seeds) {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    Scenario scenario = draw(seed, "swarm");
    scenario.bug = bug;
    const Report report = run(scenario);
    if (report.violation) return report.violation->invariant;
  }
  return {};
}

// All invariants that give it away within so many seeds.
std::set<std::string> all_caught_by(Bug bug, std::uint64_t seeds) {
  std::set<std::string> invariants;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    Scenario scenario = draw(seed, "swarm");
    scenario.bug = bug;
    const Report report = run(scenario);
    if (report.violation) invariants.insert(report.violation->invariant);
  }
  return invariants;
}

TEST_CASE("every seeded bug is caught") {
  for (int i = 1; i < static_cast<int>(Bug::count_); ++i) {
    const Bug bug = static_cast<Bug>(i);
    CHECK_MESSAGE(!caught_by(bug, 600).empty(), name_of(bug), " was not seen");
  }
}

TEST_CASE("the checks name what is wrong") {
  CHECK(all_caught_by(Bug::store_without_fencing, 150).contains("P8 fencing"));
  CHECK(all_caught_by(Bug::store_leases_leased_rows, 5).contains("P6 one holder"));
  CHECK(all_caught_by(Bug::store_steals_early, 10).contains("P6 one holder"));
  CHECK(all_caught_by(Bug::store_ignores_order, 100).contains("P3 order"));
  CHECK(all_caught_by(Bug::broker_forgets_accepted, 10).contains("P1 no loss"));
  CHECK(all_caught_by(Bug::publisher_alters_payload, 10).contains("P5 identity"));
  CHECK(all_caught_by(Bug::publisher_repeats_itself, 10).contains("P4 duplicates"));
  CHECK(all_caught_by(Bug::relay_marks_before_answer, 30).contains("P1 no loss"));
  CHECK(all_caught_by(Bug::relay_counts_everything, 30).contains("P9 bounded attempts"));
  CHECK(all_caught_by(Bug::relay_hides_holding, 100).contains("P9 solitude"));
  CHECK(all_caught_by(Bug::relay_overfills, 100).contains("P14 window"));
  CHECK(all_caught_by(Bug::relay_ignores_rest, 10).contains("P17 rest"));
}

TEST_CASE("a publisher that sends what lay in its queue while the process was frozen is seen") {
  std::set<std::string> seen;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Scenario scenario = steady(300, minutes{2});
    scenario.seed = seed;
    scenario.transaction_rows = 60;
    scenario.broker_latency = seconds{1};
    scenario.connections = 1;
    scenario.bug = Bug::publisher_ignores_start_by;
    World world(scenario);
    world.at(Time{} + seconds{20}, [&] { world.freeze(0, seconds{28}); });
    const Report report = world.run();
    if (report.violation) seen.insert(report.violation->invariant);
  }
  CHECK(seen == std::set<std::string>{"P7 trust"});
}

// A court with one check, to which a doctored story is told.
template <class Check>
struct Hearing {
  Scenario scenario;
  Court court;
  Check check{scenario, court};
  std::string verdict() const { return court.violation() ? court.violation()->invariant : ""; }
};

Publication publication_of(const Message& message, Ticket ticket) {
  Publication publication;
  publication.ticket = ticket;
  publication.message = &message;
  return publication;
}

TEST_CASE("a submit while the circuit is open is seen") {
  Hearing<PaceChecks> hearing;
  const Message message;
  const auto change = [&](CircuitState from, CircuitState to) {
    CircuitChange circuit;
    circuit.from = from;
    circuit.to = to;
    hearing.check.on_circuit(1, circuit, Time{});
  };
  const auto step = [&] { hearing.check.on_step(1, Time{}, Time{}, Time{} + seconds{1}); };
  change(CircuitState::closed, CircuitState::open);
  step();
  step();
  CHECK(hearing.verdict().empty());
  SUBCASE("one at an open circuit") {
    hearing.check.on_submitted(1, publication_of(message, 1), 1, Time{});
    step();
    CHECK(hearing.verdict() == "breaker");
  }
  SUBCASE("one probe is fine, a second is not") {
    change(CircuitState::open, CircuitState::half_open);
    hearing.check.on_submitted(1, publication_of(message, 1), 1, Time{});
    step();
    CHECK(hearing.verdict().empty());
    hearing.check.on_submitted(1, publication_of(message, 2), 2, Time{});
    step();
    CHECK(hearing.verdict() == "breaker");
  }
}

TEST_CASE("a relay that spins is seen") {
  Hearing<PaceChecks> hearing;
  for (int i = 0; i < 500; ++i) {
    const Time now = Time{} + milliseconds{i * 2};
    hearing.check.on_step(1, now, now, now);
  }
  CHECK(hearing.verdict() == "hot loop");
}

TEST_CASE("a duplicate without a cause is seen, one with a cause is not") {
  Hearing<DeliveryChecks> hearing;
  Row row;
  row.number = 1;
  row.id = "event-1";
  hearing.check.on_inserted(row);
  const Message message;
  const auto attempt = [&](ProcessId process, std::uint64_t number) {
    row.holder = process;
    hearing.check.on_leased(row, Time{});
    hearing.check.on_send({process, 1, number}, publication_of(message, number), Time{});
    hearing.check.on_accepted({process, 1, number}, fingerprint(row), Time{});
  };
  attempt(1, 1);
  SUBCASE("none") {
    attempt(1, 2);
    CHECK(hearing.verdict() == "P4 duplicates");
  }
  SUBCASE("an unknown outcome") {
    Receipt receipt;
    receipt.outcome = Outcome::transport;
    receipt.outcome_unknown = true;
    hearing.check.on_receipt({1, 1, 1}, receipt, Time{});
    attempt(1, 2);
    CHECK(hearing.verdict().empty());
    attempt(1, 3);
    CHECK(hearing.verdict() == "P4 duplicates");
  }
  SUBCASE("a crash explains the crashed relay's attempts, and nobody else's") {
    hearing.check.on_ended(1, Ending::crashed, Time{});
    attempt(2, 2);
    CHECK(hearing.verdict().empty());
    attempt(3, 3);
    CHECK(hearing.verdict() == "P4 duplicates");
  }
  SUBCASE("a clean end explains nothing") {
    hearing.check.on_ended(1, Ending::clean, Time{});
    attempt(2, 2);
    CHECK(hearing.verdict() == "P4 duplicates");
  }
}

}  // namespace
}  // namespace outbox::sim
