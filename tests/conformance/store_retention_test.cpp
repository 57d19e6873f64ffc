// Clean-ups: what goes, and what never does.
#include "tests/conformance/store_cases.h"

namespace outbox::conformance {
namespace {

// One clean-up, to its end.
CleanStep clean(OutboxDesk& desk, const CleanRequest& request) {
  CleanStep all;
  for (int steps = 0; steps < 10'000; ++steps) {
    const auto step = desk.clean(request);
    REQUIRE_MESSAGE(step.ok(), step.error);
    all.processed += step.value.processed;
    all.dead_lettered += step.value.dead_lettered;
    all.attempts += step.value.attempts;
    all.audit += step.value.audit;
    all.orphans += step.value.orphans;
    if (step.value.done) return all;
  }
  FAIL("the clean-up has no end");
  return all;
}

TEST_CASE("a clean-up removes processed rows that are over their time, and nothing else") {
  Outbox outbox;
  outbox.insert({"old", "failed", "dead", "pending"});
  Client relay(*outbox.fixture);
  const Turn turn = done(relay.lease(3));
  done(relay.settle({delivered(turn.leased.at(0)), retry(turn.leased.at(1), 24h * 30),
                     dead(turn.leased.at(2), DeadReason::permanent)}));
  outbox.fixture->advance(24h * 8);
  const auto desk = outbox.fixture->open_desk();
  outbox.insert({"young"});
  done(relay.settle({delivered(done(relay.lease(2)).leased.at(1))}));
  CleanRequest request;
  CHECK(clean(*desk, request).removed() == 0);
  request.processed = 24h * 7;
  CHECK(clean(*desk, request).processed == 1);
  CHECK(outbox.fixture->read("old").status.empty());
  CHECK(outbox.fixture->read("failed").status == "Failed");
  CHECK(outbox.fixture->read("dead").status == "DeadLettered");
  CHECK(outbox.fixture->read("pending").status == "Pending");
  CHECK(outbox.fixture->read("young").status == "Processed");
  CHECK(clean(*desk, request).removed() == 0);
  request.processed = Duration{0};
  CHECK(clean(*desk, request).processed == 1);
}

TEST_CASE("rows that were passed over as too young or unfinished go with a later clean-up") {
  Outbox outbox;
  outbox.insert({"slow", "a", "b"});
  Client relay(*outbox.fixture);
  const Turn turn = done(relay.turn());
  done(relay.settle(
      {retry(turn.leased.at(0), 1h), delivered(turn.leased.at(1)), delivered(turn.leased.at(2))}));
  const auto desk = outbox.fixture->open_desk();
  CleanRequest request;
  request.processed = 24h;
  CHECK(clean(*desk, request).processed == 0);
  outbox.fixture->advance(2h);
  done(relay.settle({delivered(done(relay.turn()).leased.at(0))}));
  outbox.fixture->advance(23h);
  CHECK(clean(*desk, request).processed == 2);
  CHECK(outbox.fixture->read("slow").status == "Processed");
  outbox.fixture->advance(2h);
  CHECK(clean(*desk, request).processed == 1);
  // The table is empty now: whatever comes next is found again.
  outbox.insert({"next"});
  done(relay.settle({delivered(done(relay.turn()).leased.at(0))}));
  outbox.fixture->advance(25h);
  CHECK(clean(*desk, request).processed == 1);
}

TEST_CASE("a clean-up of many rows takes small steps") {
  Outbox outbox;
  for (int i = 0; i < 2500; ++i) outbox.insert({"evt-" + std::to_string(i)});
  Client relay(*outbox.fixture);
  relay.request.limit = 5000;
  for (int turns = 0; turns < 100; ++turns) {
    std::vector<Settlement> verdicts;
    for (const Message& message : done(relay.turn()).leased) verdicts.push_back(delivered(message));
    if (verdicts.empty()) break;
    done(relay.settle(verdicts));
  }
  outbox.fixture->advance(48h);
  const auto desk = outbox.fixture->open_desk();
  CleanRequest request;
  request.processed = 24h;
  request.chunk = 100;
  std::uint64_t removed = 0;
  for (int steps = 0; steps < 10'000; ++steps) {
    const auto step = desk->clean(request);
    REQUIRE_MESSAGE(step.ok(), step.error);
    CHECK(step.value.removed() <= 100);
    removed += step.value.removed();
    if (step.value.done) break;
  }
  CHECK(removed == 2500);
}

TEST_CASE("dead letters go when a term is set for them, but for those that hold back their key") {
  Outbox outbox;
  outbox.insert({"plain"});
  outbox.insert_keyed("keyed", "k");
  Client relay(*outbox.fixture);
  const Turn turn = done(relay.turn());
  done(relay.settle({dead(turn.leased.at(0), DeadReason::permanent),
                     dead(turn.leased.at(1), DeadReason::permanent)}));
  outbox.fixture->advance(24h * 400);
  const auto desk = outbox.fixture->open_desk();
  CleanRequest request;
  request.processed = Duration{0};
  CHECK(clean(*desk, request).removed() == 0);
  request.dead_lettered = 24h * 401;
  CHECK(clean(*desk, request).removed() == 0);
  request.dead_lettered = 24h * 399;
  request.keyed_dead_stay = true;
  CHECK(clean(*desk, request).dead_lettered == 1);
  CHECK(outbox.fixture->read("plain").status.empty());
  CHECK(outbox.fixture->read("keyed").status == "DeadLettered");
  request.keyed_dead_stay = false;
  CHECK(clean(*desk, request).dead_lettered == 1);
}

TEST_CASE("a redriven row that waits again is no dead letter to a clean-up") {
  Outbox outbox;
  outbox.insert({"a"});
  Client relay(*outbox.fixture);
  done(relay.settle({dead(done(relay.turn()).leased.at(0), DeadReason::permanent)}));
  const auto desk = outbox.fixture->open_desk();
  REQUIRE(desk->redrive({}, "again", {}).value == 1);
  outbox.fixture->advance(24h * 400);
  CleanRequest request;
  request.processed = Duration{0};
  request.dead_lettered = Duration{0};
  CHECK(clean(*desk, request).removed() == 0);
  CHECK(ids_of(done(relay.turn())) == Ids{"a"});
}

TEST_CASE("the record of attempts and the audit go after their own term") {
  Outbox outbox;
  outbox.insert({"a"});
  Client relay(*outbox.fixture);
  done(relay.settle({retry(done(relay.turn()).leased.at(0), 1s)}));
  outbox.fixture->advance(48h);
  done(relay.settle({dead(done(relay.turn()).leased.at(0), DeadReason::permanent)}));
  const auto desk = outbox.fixture->open_desk();
  REQUIRE(desk->message("a", 0).value.at(0).attempts.size() == 2);
  CHECK(desk->message("a", 0).value.at(0).attempts[0].outcome == "transport");
  CHECK(desk->message("a", 0).value.at(0).attempts[0].reason == "connection refused");
  CHECK(desk->message("a", 0).value.at(0).attempts[1].outcome == "refused");
  CleanRequest request;
  request.attempts = 24h;
  const CleanStep first = clean(*desk, request);
  CHECK(first.attempts == 1);
  CHECK(first.audit == 0);
  outbox.fixture->advance(25h);
  const CleanStep second = clean(*desk, request);
  CHECK(second.attempts == 1);
  CHECK(second.audit == 1);
  CHECK(outbox.fixture->read("a").status == "DeadLettered");
}

TEST_CASE("notes about rows that are gone go, too") {
  Outbox outbox;
  outbox.insert({"a", "b"});
  Client relay(*outbox.fixture);
  const Turn turn = done(relay.turn());
  done(relay.settle({retry(turn.leased.at(0), 1h), retry(turn.leased.at(1), 1h)}));
  outbox.fixture->remove("a");
  const auto desk = outbox.fixture->open_desk();
  CHECK(clean(*desk, {}).orphans == 1);
  CHECK_FALSE(desk->message("b", 0).value.at(0).beside.empty());
  CHECK(outbox.fixture->open_desk()->clean({}).value.orphans == 0);
}

}  // namespace
}  // namespace outbox::conformance
