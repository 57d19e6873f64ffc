// Settlements: what a verdict does, and when it does nothing.
#include "tests/conformance/store_cases.h"

namespace outbox::conformance {
namespace {

TEST_CASE("a delivered row is Processed: error and due time are gone, the count stays") {
  Outbox outbox;
  outbox.insert({"a"});
  Client relay(*outbox.fixture);
  done(relay.settle({retry(done(relay.turn()).leased.at(0), 1s)}));
  outbox.fixture->advance(2s);
  const Turn again = done(relay.turn());
  REQUIRE(again.leased.size() == 1);
  const Turn turn = done(relay.settle({delivered(again.leased[0])}));
  CHECK(turn.fenced == 0);
  const RowState row = outbox.fixture->read("a");
  CHECK(row.status == "Processed");
  CHECK(row.retry_count == 1);
  CHECK_FALSE(row.last_error.has_value());
  CHECK_FALSE(row.has_due_time);
  CHECK(row.has_processed_time);
  CHECK(done(relay.turn()).leased.empty());
}

TEST_CASE("rows delivered together end each in its own way") {
  Outbox outbox;
  for (int i = 0; i < 20; ++i) outbox.insert({"r" + std::to_string(i)});
  Client relay(*outbox.fixture);
  // One of them has failed before: there is something noted of it.
  Turn turn = done(relay.turn());
  REQUIRE(turn.leased.size() == 20);
  std::vector<Settlement> settlements;
  for (const Message& message : turn.leased) settlements.push_back(released(message));
  settlements[7] = retry(turn.leased[7], 0s);
  done(relay.settle(settlements));
  turn = done(relay.turn());
  REQUIRE(turn.leased.size() == 20);

  // Another is gone, and one was settled before.
  outbox.fixture->remove("r12");
  settlements.clear();
  for (const Message& message : turn.leased) {
    if (message.id == "r15") {
      done(relay.settle({dead(message, DeadReason::permanent)}));
    }
    settlements.push_back(delivered(message));
  }
  CHECK(done(relay.settle(settlements)).fenced == 2);
  for (int i = 0; i < 20; ++i) {
    const std::string id = "r" + std::to_string(i);
    CAPTURE(id);
    if (i == 12) continue;
    CHECK(outbox.fixture->read(id).status == (i == 15 ? "DeadLettered" : "Processed"));
  }
  outbox.fixture->advance(1min);
  CHECK(done(relay.turn()).leased.empty());
  Client other(*outbox.fixture);
  CHECK(done(other.turn()).leased.empty());
}

TEST_CASE("a row to be retried is Failed, charged, and leased again when it is due") {
  Outbox outbox;
  outbox.insert({"a"});
  Client relay(*outbox.fixture);
  const Turn leased = done(relay.turn());
  const Turn settled = done(relay.turn({retry(leased.leased.at(0), 10s)}));
  CHECK(settled.leased.empty());
  REQUIRE(settled.next_due.has_value());
  CHECK(*settled.next_due > 9s);
  CHECK(*settled.next_due <= 10s);
  const RowState row = outbox.fixture->read("a");
  CHECK(row.status == "Failed");
  CHECK(row.retry_count == 1);
  CHECK(row.last_error == "connection refused");
  CHECK(row.has_due_time);

  outbox.fixture->advance(9s);
  CHECK(done(relay.turn()).leased.empty());
  outbox.fixture->advance(2s);
  const Turn again = done(relay.turn());
  REQUIRE(again.leased.size() == 1);
  const RowHistory& history = again.leased[0].history;
  CHECK(history.retry_count == 1);
  CHECK(history.counted == 1);
  CHECK(history.last_failure == FailureKind::transport);
  CHECK(history.last_delay == 10s);
  REQUIRE(history.since_last_attempt.has_value());
  CHECK(*history.since_last_attempt == 11s);
  CHECK(again.leased[0].lease > leased.leased[0].lease);
}

TEST_CASE("a failure that neither counts nor was sent leaves those marks alone") {
  Outbox outbox;
  outbox.insert({"a"});
  Client relay(*outbox.fixture);
  Settlement turned_away = retry(done(relay.turn()).leased.at(0), 1s);
  turned_away.kind = FailureKind::short_circuited;
  turned_away.counts = false;
  turned_away.attempted = false;
  turned_away.charge = 1;
  done(relay.settle({turned_away}));
  outbox.fixture->advance(2s);
  const Turn again = done(relay.turn());
  REQUIRE(again.leased.size() == 1);
  CHECK(again.leased[0].history.retry_count == 1);
  CHECK(again.leased[0].history.counted == 0);
  CHECK_FALSE(again.leased[0].history.since_last_attempt.has_value());
  CHECK(again.leased[0].history.last_failure == FailureKind::short_circuited);
}

TEST_CASE("a held row is Failed without being charged, and its misconfiguration is timed") {
  Outbox outbox;
  outbox.insert({"a"});
  Client relay(*outbox.fixture);
  done(relay.settle({held(done(relay.turn()).leased.at(0), 30s)}));
  CHECK(outbox.fixture->read("a").status == "Failed");
  CHECK(outbox.fixture->read("a").retry_count == 0);
  outbox.fixture->advance(40s);
  done(relay.settle({held(done(relay.turn()).leased.at(0), 30s)}));
  outbox.fixture->advance(40s);
  const Turn third = done(relay.turn());
  REQUIRE(third.leased.size() == 1);
  CHECK(third.leased[0].history.misconfigured_tries == 2);
  CHECK(third.leased[0].history.misconfigured_for == 80s);
  CHECK(third.leased[0].history.retry_count == 0);

  done(relay.settle({retry(third.leased[0], 1s)}));
  outbox.fixture->advance(2s);
  const Turn fourth = done(relay.turn());
  REQUIRE(fourth.leased.size() == 1);
  CHECK(fourth.leased[0].history.misconfigured_tries == 0);
  CHECK_FALSE(fourth.leased[0].history.misconfigured_for.has_value());
}

TEST_CASE("a dead row is a dead letter with its reason, and is not leased again") {
  Outbox outbox;
  outbox.insert({"a"});
  Client relay(*outbox.fixture);
  done(relay.settle({dead(done(relay.turn()).leased.at(0), DeadReason::permanent)}));
  const RowState row = outbox.fixture->read("a");
  CHECK(row.status == "DeadLettered");
  CHECK(row.dead_letter_reason == "permanent");
  CHECK(row.last_error == "refused for good");
  CHECK(row.retry_count == 1);
  CHECK_FALSE(row.has_due_time);
  outbox.fixture->advance(48h);
  CHECK(done(relay.turn()).leased.empty());
}

TEST_CASE("a released row is as it was before, and may be leased at once") {
  Outbox outbox;
  outbox.insert({"a", "b"});
  Client relay(*outbox.fixture);
  Client other(*outbox.fixture);
  const Turn turn = done(relay.turn());
  done(relay.settle({released(turn.leased.at(0)), released(turn.leased.at(1))}));
  CHECK(outbox.fixture->read("a").status == "Pending");
  CHECK(ids_of(done(other.lease(1))) == Ids{"a"});
  CHECK(ids_of(done(relay.turn())) == Ids{"b"});
}

TEST_CASE("a released retry keeps its count and is due as before") {
  Outbox outbox;
  outbox.insert({"a"});
  Client relay(*outbox.fixture);
  done(relay.settle({retry(done(relay.turn()).leased.at(0), 5s)}));
  outbox.fixture->advance(6s);
  done(relay.settle({released(done(relay.turn()).leased.at(0))}));
  CHECK(outbox.fixture->read("a").status == "Failed");
  const Turn again = done(relay.turn());
  REQUIRE(again.leased.size() == 1);
  CHECK(again.leased[0].history.retry_count == 1);
}

TEST_CASE("an error text is cut at 1 KiB, between two characters") {
  Outbox outbox;
  outbox.insert({"a"});
  Client relay(*outbox.fixture);
  Settlement failure = retry(done(relay.turn()).leased.at(0), 1s);
  failure.reason = "x";
  while (failure.reason.size() < 3000) failure.reason += "\xc3\xa4";
  done(relay.settle({failure}));
  const auto text = outbox.fixture->read("a").last_error.value_or("");
  CHECK(text.size() == 1023);
  CHECK(text == failure.reason.substr(0, 1023));
}

TEST_CASE("an outcome that is unknown marks all later attempts") {
  Outbox outbox;
  outbox.insert({"a"});
  Client relay(*outbox.fixture);
  Settlement lost = retry(done(relay.turn()).leased.at(0), 1s);
  lost.outcome_unknown = true;
  done(relay.settle({lost}));
  outbox.fixture->advance(2s);
  const Turn second = done(relay.turn());
  REQUIRE(second.leased.size() == 1);
  CHECK(second.leased[0].history.outcome_unknown);
  done(relay.settle({retry(second.leased[0], 1s)}));
  outbox.fixture->advance(2s);
  CHECK(done(relay.turn()).leased.at(0).history.outcome_unknown);
}

TEST_CASE("a stale holder's retry, dead, held and released change nothing and are counted") {
  Outbox outbox;
  outbox.insert({"a", "b", "c", "d"});
  Client slow(*outbox.fixture);
  Client other(*outbox.fixture);
  const Turn leased = done(slow.turn());
  REQUIRE(leased.leased.size() == 4);
  outbox.fixture->advance(31s);
  REQUIRE(done(other.turn()).leased.size() == 4);
  const Turn late =
      done(slow.settle({retry(leased.leased[0], 1s), dead(leased.leased[1], DeadReason::permanent),
                        held(leased.leased[2], 1s), released(leased.leased[3])}));
  CHECK(late.fenced == 4);
  for (const auto* id : {"a", "b", "c", "d"}) {
    CHECK(outbox.fixture->read(id).status == "Pending");
    CHECK(outbox.fixture->read(id).retry_count == 0);
  }
  CHECK(done(slow.turn()).leased.empty());
}

TEST_CASE("an earlier lease of the same relay settles nothing either") {
  Outbox outbox;
  outbox.insert({"a"});
  Client relay(*outbox.fixture);
  const Turn first = done(relay.turn());
  done(relay.settle({released(first.leased.at(0))}));
  const Turn second = done(relay.turn());
  CHECK(done(relay.settle({retry(first.leased[0], 1s)})).fenced == 1);
  CHECK(outbox.fixture->read("a").status == "Pending");
  CHECK(done(relay.settle({retry(second.leased.at(0), 1s)})).fenced == 0);
  CHECK(outbox.fixture->read("a").status == "Failed");
}

TEST_CASE("a late confirmation counts all the same, and ends the lease of whoever has the row") {
  Outbox outbox;
  outbox.insert({"a"});
  Client slow(*outbox.fixture);
  Client other(*outbox.fixture);
  const Turn leased = done(slow.turn());
  outbox.fixture->advance(31s);
  const Turn taken = done(other.turn());
  REQUIRE(taken.leased.size() == 1);
  CHECK(done(slow.settle({delivered(leased.leased.at(0))})).fenced == 0);
  CHECK(outbox.fixture->read("a").status == "Processed");
  CHECK(done(other.settle({retry(taken.leased[0], 1s)})).fenced == 1);
  CHECK(outbox.fixture->read("a").status == "Processed");
}

TEST_CASE("a late confirmation of a row that waits for its retry counts") {
  Outbox outbox;
  outbox.insert({"a"});
  Client slow(*outbox.fixture);
  Client other(*outbox.fixture);
  const Turn leased = done(slow.turn());
  outbox.fixture->advance(31s);
  done(other.settle({retry(done(other.turn()).leased.at(0), 1h)}));
  CHECK(done(slow.settle({delivered(leased.leased.at(0))})).fenced == 0);
  CHECK(outbox.fixture->read("a").status == "Processed");
  CHECK_FALSE(outbox.fixture->read("a").has_due_time);
}

TEST_CASE("a confirmation never touches a final state") {
  Outbox outbox;
  outbox.insert({"a", "b"});
  Client relay(*outbox.fixture);
  const Turn turn = done(relay.turn());
  done(
      relay.settle({delivered(turn.leased.at(0)), dead(turn.leased.at(1), DeadReason::permanent)}));
  const Turn late = done(relay.settle({delivered(turn.leased[0]), delivered(turn.leased[1])}));
  CHECK(late.fenced == 2);
  CHECK(outbox.fixture->read("a").status == "Processed");
  CHECK(outbox.fixture->read("b").status == "DeadLettered");
}

TEST_CASE("a confirmation from before a redrive does not settle the redriven row") {
  Outbox outbox;
  outbox.insert({"a"});
  Client slow(*outbox.fixture);
  Client other(*outbox.fixture);
  const Turn leased = done(slow.turn());
  outbox.fixture->advance(31s);
  done(other.settle({dead(done(other.turn()).leased.at(0), DeadReason::attempts_exhausted)}));
  const auto desk = outbox.fixture->open_desk();
  REQUIRE(desk->redrive({}, "broker mended", {}).value == 1);
  CHECK(done(slow.settle({delivered(leased.leased.at(0))})).fenced == 1);
  CHECK(outbox.fixture->read("a").status == "Pending");
  outbox.fixture->advance(2s);
  const Turn again = done(other.turn());
  REQUIRE(again.leased.size() == 1);
  CHECK(again.leased[0].generation == 1);
  CHECK(again.leased[0].history.retry_count == 0);
  CHECK(done(other.settle({delivered(again.leased[0])})).fenced == 0);
  CHECK(outbox.fixture->read("a").status == "Processed");
}

TEST_CASE("a settlement of a row that is gone is counted and harms nothing") {
  Outbox outbox;
  outbox.insert({"a", "b"});
  Client relay(*outbox.fixture);
  const Turn turn = done(relay.turn());
  outbox.fixture->remove("a");
  const Turn settled =
      done(relay.settle({retry(turn.leased.at(0), 1s), delivered(turn.leased.at(1))}));
  CHECK(settled.fenced == 1);
  CHECK(outbox.fixture->read("b").status == "Processed");
  Settlement nonsense = delivered(turn.leased[0]);
  nonsense.row = "no row at all";
  CHECK(done(relay.settle({nonsense})).fenced == 1);
}

TEST_CASE("a row that refuses to be written spoils no other, and is kept beside") {
  Outbox outbox;
  outbox.insert({"a", "b", "c"});
  Client relay(*outbox.fixture);
  const Turn leased = done(relay.turn());
  REQUIRE(leased.leased.size() == 3);
  outbox.fixture->refuse_changes("b");
  const Turn settled = done(relay.settle(
      {delivered(leased.leased[0]), retry(leased.leased[1], 5s), delivered(leased.leased[2])}));
  const std::size_t refused = outbox.fixture->writes_rows() ? 1 : 0;
  CHECK(settled.isolated == refused);
  CHECK(settled.isolated_error.empty() == (refused == 0));
  CHECK(settled.fenced == 0);
  CHECK(outbox.fixture->read("a").status == "Processed");
  CHECK(outbox.fixture->read("b").status != "Processed");
  CHECK(outbox.fixture->read("c").status == "Processed");

  CHECK(done(relay.turn()).leased.empty());
  outbox.fixture->advance(6s);
  const Turn again = done(relay.turn());
  CHECK(ids_of(again) == Ids{"b"});
  CHECK(again.leased.at(0).history.retry_count == 1);
  CHECK(done(relay.settle({delivered(again.leased[0])})).isolated == refused);
  outbox.fixture->advance(2s);
  CHECK(done(relay.turn()).leased.empty());
  const auto desk = outbox.fixture->open_desk();
  const auto backlog = desk->backlog();
  REQUIRE_MESSAGE(backlog.ok(), backlog.error);
  CHECK(backlog.value.pending == 0);
}

}  // namespace
}  // namespace outbox::conformance
