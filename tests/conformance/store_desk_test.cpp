// An operator's questions and orders.
#include "tests/conformance/store_cases.h"

namespace outbox::conformance {
namespace {

DeadLetterFilter filter_of(std::vector<std::string> ids, std::string event_type, std::string reason,
                           std::size_t limit = 1000) {
  DeadLetterFilter filter;
  filter.ids = std::move(ids);
  filter.event_type = std::move(event_type);
  filter.reason = std::move(reason);
  filter.limit = limit;
  return filter;
}

TEST_CASE("the desk counts what waits, what is leased and what is dead") {
  Outbox outbox;
  Client relay(*outbox.fixture);
  done(relay.turn());
  outbox.fixture->insert({.id = "dead", .event_type = "order.cancelled"});
  outbox.insert({"failed", "leased", "pending1", "pending2"});
  const Turn turn = done(relay.lease(3));
  done(
      relay.settle({dead(turn.leased.at(0), DeadReason::permanent), retry(turn.leased.at(1), 1h)}));
  outbox.fixture->advance(1min);
  const auto desk = outbox.fixture->open_desk();
  const auto backlog = desk->backlog();
  REQUIRE_MESSAGE(backlog.ok(), backlog.error);
  CHECK(backlog.value.pending == 2);
  CHECK(backlog.value.failed == 1);
  CHECK(backlog.value.leased == 1);
  CHECK(backlog.value.dead_lettered == 1);
  REQUIRE(backlog.value.oldest_age.has_value());
  CHECK(*backlog.value.oldest_age >= 60s);
  CHECK(*backlog.value.oldest_age < 70s);
  CHECK(backlog.value.dead_by_event_type ==
        std::vector<std::pair<std::string, std::uint64_t>>{{"order.cancelled", 1}});
}

TEST_CASE("dead letters are found and redriven by id, type and reason") {
  Outbox outbox;
  outbox.fixture->insert({.id = "a", .event_type = "x"});
  outbox.fixture->insert({.id = "b", .event_type = "x"});
  outbox.fixture->insert({.id = "c", .event_type = "y", .ordering_key = "k"});
  Client relay(*outbox.fixture);
  const Turn turn = done(relay.turn());
  done(relay.settle({dead(turn.leased.at(0), DeadReason::permanent),
                     dead(turn.leased.at(1), DeadReason::oversized),
                     dead(turn.leased.at(2), DeadReason::permanent)}));
  const auto desk = outbox.fixture->open_desk();
  const auto all = desk->dead_letters({});
  REQUIRE_MESSAGE(all.ok(), all.error);
  REQUIRE(all.value.size() == 3);
  CHECK(all.value[2].id == "c");
  CHECK(all.value[2].event_type == "y");
  CHECK(all.value[2].ordering_key == "k");
  CHECK(all.value[2].reason == "permanent");
  CHECK(all.value[2].attempts == 1);
  CHECK(all.value[2].last_error == "refused for good");
  CHECK(desk->dead_letters(filter_of({"a", "c"}, "", "")).value.size() == 2);
  CHECK(desk->dead_letters(filter_of({}, "x", "")).value.size() == 2);
  CHECK(desk->dead_letters(filter_of({}, "", "oversized")).value.size() == 1);
  CHECK(desk->dead_letters(filter_of({}, "", "", 1)).value.size() == 1);

  CHECK(desk->redrive(filter_of({}, "", "oversized"), "limit raised").value == 1);
  CHECK(outbox.fixture->read("b").status == "Pending");
  CHECK(outbox.fixture->read("b").retry_count == 0);
  CHECK_FALSE(outbox.fixture->read("b").last_error.has_value());
  CHECK_FALSE(outbox.fixture->read("b").dead_letter_reason.has_value());
  CHECK(desk->redrive(filter_of({}, "", "", 1), "one").value == 1);
  CHECK(desk->dead_letters({}).value.size() == 1);
}

TEST_CASE("a redrive of many rows moves them all") {
  Outbox outbox;
  for (int i = 0; i < 250; ++i) outbox.insert({"evt-" + std::to_string(i)});
  Client relay(*outbox.fixture);
  relay.request.limit = 1000;
  std::vector<Settlement> verdicts;
  for (const Message& message : done(relay.turn()).leased) {
    verdicts.push_back(dead(message, DeadReason::attempts_exhausted));
  }
  REQUIRE(verdicts.size() == 250);
  done(relay.settle(verdicts));
  const auto desk = outbox.fixture->open_desk();
  CHECK(desk->redrive({}, "all of them").value == 250);
  CHECK(desk->backlog().value.pending == 250);
  outbox.fixture->advance(2s);
  CHECK(done(relay.turn()).leased.size() == 250);
}

TEST_CASE("an operator's hold of the circuit reaches every relay with its next turn") {
  Outbox outbox;
  outbox.insert({"a"});
  Client one(*outbox.fixture);
  Client other(*outbox.fixture);
  CHECK_FALSE(done(one.lease(0)).circuit_held);
  CHECK_FALSE(done(other.lease(0)).circuit_held);
  const auto desk = outbox.fixture->open_desk();
  const auto held = desk->hold_circuit(true, "broker is being moved");
  REQUIRE_MESSAGE(held.ok(), held.error);
  CHECK(held.value);
  for (Client* relay : {&one, &other}) {
    const Turn turn = done(relay->turn());
    CHECK(turn.circuit_held);
    CHECK(turn.leased.empty());
  }
  Client later(*outbox.fixture);
  CHECK(done(later.turn()).circuit_held);
  REQUIRE(desk->hold_circuit(false, "moved").ok());
  const Turn turn = done(one.turn());
  CHECK_FALSE(turn.circuit_held);
  CHECK(ids_of(turn) == Ids{"a"});
}

}  // namespace
}  // namespace outbox::conformance
