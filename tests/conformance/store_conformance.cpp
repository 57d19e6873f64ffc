#include "tests/conformance/store_conformance.h"

#include <doctest/doctest.h>

namespace outbox::conformance {
namespace {

using namespace std::chrono_literals;
using Ids = std::vector<std::string>;

struct Outbox {
  std::unique_ptr<StoreFixture> fixture = make_store_fixture();

  void insert(const Ids& ids) {
    for (const auto& id : ids) fixture->insert({.id = id});
  }
  void insert_keyed(const std::string& id, const std::string& key) {
    fixture->insert({.id = id, .ordering_key = key});
  }
};

DeadLetterFilter filter_of(std::vector<std::string> ids, std::string event_type, std::string reason,
                           std::size_t limit = 1000) {
  DeadLetterFilter filter;
  filter.ids = std::move(ids);
  filter.event_type = std::move(event_type);
  filter.reason = std::move(reason);
  filter.limit = limit;
  return filter;
}

// The turn must have been committed; shows why it was not.
Turn done(Turn turn) {
  REQUIRE_MESSAGE(turn.status == TurnStatus::committed, turn.error);
  return turn;
}

TEST_CASE("a committed row is leased with everything the application gave it") {
  Outbox outbox;
  outbox.fixture->insert(
      {.id = "evt-1",
       .event_type = "order.paid",
       .payload = std::string("bytes \0\xff", 8),
       .ordering_key = "order-7",
       .destination = "orders/eu",
       .content_type = "application/json",
       .headers = R"({"tenant": "acme", "version": 2, "urgent": true})",
       .traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"});
  Client relay(*outbox.fixture);
  const Turn turn = done(relay.turn());
  REQUIRE(turn.leased.size() == 1);
  const Message& message = turn.leased[0];
  CHECK(message.id == "evt-1");
  CHECK(message.event_type == "order.paid");
  CHECK(message.payload == std::string("bytes \0\xff", 8));
  CHECK(message.payload_size == 8);
  CHECK(message.ordering_key == "order-7");
  CHECK(message.destination == "orders/eu");
  CHECK(message.content_type == "application/json");
  CHECK(message.traceparent == "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
  CHECK(message.headers ==
        std::vector<Header>{{"tenant", "acme"}, {"version", "2"}, {"urgent", "true"}});
  CHECK(message.occurred_on.size() >= 20);
  CHECK(message.occurred_on.back() == 'Z');
  CHECK(message.lease == turn.epoch);
  CHECK(message.lease > 0);
  CHECK(message.generation == 0);
  CHECK(message.history.retry_count == 0);
  CHECK(message.history.last_failure == FailureKind::none);
  CHECK_FALSE(message.history.since_last_attempt.has_value());
  CHECK_FALSE(message.history.outcome_unknown);
  CHECK_FALSE(message.defect.has_value());
  CHECK(turn.renewed);
}

TEST_CASE("absent values stay absent") {
  Outbox outbox;
  outbox.insert({"evt-1"});
  Client relay(*outbox.fixture);
  const Turn turn = done(relay.turn());
  REQUIRE(turn.leased.size() == 1);
  CHECK_FALSE(turn.leased[0].ordering_key.has_value());
  CHECK_FALSE(turn.leased[0].destination.has_value());
  CHECK_FALSE(turn.leased[0].content_type.has_value());
  CHECK_FALSE(turn.leased[0].traceparent.has_value());
  CHECK(turn.leased[0].headers.empty());
}

TEST_CASE("rows are leased in the order of the table, no more than asked for") {
  Outbox outbox;
  outbox.insert({"a", "b", "c", "d", "e"});
  Client relay(*outbox.fixture);
  const Turn first = done(relay.lease(2));
  CHECK(ids_of(first) == Ids{"a", "b"});
  CHECK(first.more);
  const Turn second = done(relay.lease(10));
  CHECK(ids_of(second) == Ids{"c", "d", "e"});
  CHECK_FALSE(done(relay.lease(10)).more);
  CHECK(done(relay.lease(0)).leased.empty());
}

TEST_CASE("a leased row is leased to nobody else") {
  Outbox outbox;
  outbox.insert({"a", "b", "c"});
  Client one(*outbox.fixture);
  Client other(*outbox.fixture);
  CHECK(ids_of(done(one.lease(2))) == Ids{"a", "b"});
  CHECK(ids_of(done(other.turn())) == Ids{"c"});
  CHECK(done(one.turn()).leased.empty());
  CHECK(done(other.turn()).leased.empty());
}

TEST_CASE("each leasing turn has a higher epoch than any before, whoever takes it") {
  Outbox outbox;
  outbox.insert({"a", "b", "c", "d"});
  Client one(*outbox.fixture);
  Client other(*outbox.fixture);
  const LeaseId first = done(one.lease(1)).epoch;
  const LeaseId second = done(other.lease(1)).epoch;
  const LeaseId third = done(one.lease(1)).epoch;
  one.store().retire();
  Client later(*outbox.fixture);
  const LeaseId fourth = done(later.lease(1)).epoch;
  CHECK(first > 0);
  CHECK(second > first);
  CHECK(third > second);
  CHECK(fourth > third);
}

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

TEST_CASE("rows whose lease has ended go to another relay, not before") {
  Outbox outbox;
  outbox.insert({"a"});
  Client slow(*outbox.fixture);
  Client other(*outbox.fixture);
  const Turn leased = done(slow.turn());
  outbox.fixture->advance(29s);
  CHECK(done(other.turn()).leased.empty());
  outbox.fixture->advance(2s);
  const Turn taken = done(other.turn());
  CHECK(taken.taken_over == 1);
  REQUIRE(taken.leased.size() == 1);
  CHECK(taken.leased[0].lease > leased.leased[0].lease);
  CHECK(taken.leased[0].history.outcome_unknown);
  CHECK(taken.leased[0].history.retry_count == 0);
}

TEST_CASE("a relay whose leases were given away is told so") {
  Outbox outbox;
  outbox.insert({"a"});
  Client slow(*outbox.fixture);
  Client other(*outbox.fixture);
  done(slow.turn());
  outbox.fixture->advance(31s);
  done(other.turn());
  outbox.insert({"b"});
  const Turn late = done(slow.turn());
  CHECK(late.leases_lost);
  CHECK(ids_of(late) == Ids{"b"});
  CHECK_FALSE(done(slow.settle({delivered(late.leased.at(0))})).leases_lost);
}

TEST_CASE("a renewed lease lasts another term from the renewal") {
  Outbox outbox;
  outbox.insert({"a"});
  Client relay(*outbox.fixture);
  Client other(*outbox.fixture);
  const Turn leased = done(relay.turn());
  for (int i = 0; i < 5; ++i) {
    outbox.fixture->advance(20s);
    CHECK(done(relay.renew()).renewed);
    CHECK(done(other.turn()).leased.empty());
  }
  CHECK(done(relay.settle({delivered(leased.leased.at(0))})).fenced == 0);
  CHECK(outbox.fixture->read("a").status == "Processed");
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
  REQUIRE(desk->redrive({}, "broker mended").value == 1);
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

TEST_CASE("repeating a turn that was applied changes nothing and returns its rows") {
  Outbox outbox;
  outbox.insert({"a", "b", "c"});
  Client relay(*outbox.fixture);
  const Turn first = done(relay.lease(1));
  const std::vector<Settlement> verdicts{retry(first.leased.at(0), 1h)};
  relay.request.limit = 1;
  const Turn second = done(relay.turn(verdicts));
  CHECK(ids_of(second) == Ids{"b"});
  const Turn repeated = done(relay.repeat(verdicts));
  CHECK(ids_of(repeated) == Ids{"b"});
  CHECK(repeated.epoch == second.epoch);
  CHECK(repeated.leased.at(0).lease == second.leased.at(0).lease);
  CHECK(outbox.fixture->read("a").retry_count == 1);
  CHECK(ids_of(done(relay.turn())) == Ids{"c"});
  CHECK(done(relay.settle({delivered(repeated.leased[0])})).fenced == 0);
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
  CHECK(settled.isolated == 1);
  CHECK_FALSE(settled.isolated_error.empty());
  CHECK(settled.fenced == 0);
  CHECK(outbox.fixture->read("a").status == "Processed");
  CHECK(outbox.fixture->read("b").status == "Pending");
  CHECK(outbox.fixture->read("c").status == "Processed");

  CHECK(done(relay.turn()).leased.empty());
  outbox.fixture->advance(6s);
  const Turn again = done(relay.turn());
  CHECK(ids_of(again) == Ids{"b"});
  CHECK(again.leased.at(0).history.retry_count == 1);
  CHECK(done(relay.settle({delivered(again.leased[0])})).isolated == 1);
  outbox.fixture->advance(2s);
  CHECK(done(relay.turn()).leased.empty());
  const auto desk = outbox.fixture->open_desk();
  const auto backlog = desk->backlog();
  REQUIRE_MESSAGE(backlog.ok(), backlog.error);
  CHECK(backlog.value.pending == 0);
}

TEST_CASE("a turn with nothing to do writes nothing") {
  Outbox outbox;
  outbox.insert({"a"});
  Client relay(*outbox.fixture);
  done(relay.settle({retry(done(relay.turn()).leased.at(0), 1h)}));
  const auto before = outbox.fixture->version();
  for (int i = 0; i < 5; ++i) {
    const Turn turn = done(relay.turn());
    CHECK(turn.epoch == 0);
    CHECK(turn.next_due.has_value());
    outbox.fixture->advance(1s);
  }
  done(relay.lease(0));
  CHECK(outbox.fixture->version() == before);
}

TEST_CASE("new rows are found at once, also after many looks that found none") {
  Outbox outbox;
  Client relay(*outbox.fixture);
  for (int i = 0; i < 10; ++i) CHECK(done(relay.turn()).leased.empty());
  outbox.insert({"a"});
  CHECK(ids_of(done(relay.turn())) == Ids{"a"});
}

TEST_CASE("the first row always fits, the others within the bytes") {
  Outbox outbox;
  for (const auto* id : {"a", "b", "c"}) {
    outbox.fixture->insert({.id = id, .payload = std::string(1000, 'x')});
  }
  Client relay(*outbox.fixture);
  relay.request.bytes = 500;
  CHECK(ids_of(done(relay.turn())) == Ids{"a"});
  relay.request.bytes = 2000;
  CHECK(ids_of(done(relay.turn())) == Ids{"b", "c"});
}

TEST_CASE("a payload over the limit is not loaded, its size is told") {
  Outbox outbox;
  outbox.fixture->insert({.id = "a", .payload = std::string(5000, 'x')});
  outbox.fixture->insert({.id = "b", .payload = std::string(50, 'y')});
  Client relay(*outbox.fixture);
  relay.request.payload_max = 4999;
  relay.request.bytes = 100;
  const Turn turn = done(relay.turn());
  REQUIRE(turn.leased.size() == 2);
  CHECK(turn.leased[0].payload.empty());
  CHECK(turn.leased[0].payload_size == 5000);
  CHECK(turn.leased[1].payload.size() == 50);
}

TEST_CASE("rows that can't be messages are leased with their defect") {
  Outbox outbox;
  outbox.fixture->insert({.id = "broken", .headers = "{\"a\": "});
  outbox.fixture->insert({.id = "nested", .headers = R"({"a": {"b": 1}})"});
  outbox.fixture->insert({.id = "twice", .headers = R"({"a": 1, "a": 2})"});
  outbox.fixture->insert({.id = "list", .headers = R"(["a"])"});
  outbox.fixture->insert({.id = "type", .event_type = "not utf-8: \xff"});
  outbox.fixture->insert({.id = "fine", .headers = "{}"});
  Client relay(*outbox.fixture);
  const Turn turn = done(relay.turn());
  REQUIRE(turn.leased.size() == 6);
  for (std::size_t i = 0; i < 5; ++i) {
    CAPTURE(turn.leased[i].id);
    REQUIRE(turn.leased[i].defect.has_value());
    CHECK(turn.leased[i].defect->find(i < 4 ? "headers" : "event_type") != std::string::npos);
  }
  CHECK_FALSE(turn.leased[5].defect.has_value());
  done(relay.settle({dead(turn.leased[0], DeadReason::invalid_row)}));
  CHECK(outbox.fixture->read("broken").dead_letter_reason == "invalid_row");
}

TEST_CASE("a row is not leased before the time that the application gave") {
  Outbox outbox;
  outbox.fixture->insert({.id = "later", .not_before = 1h});
  outbox.fixture->insert({.id = "far", .not_before = 24h * 365});
  outbox.fixture->insert({.id = "now", .not_before = -1h});
  outbox.insert({"any"});
  Client relay(*outbox.fixture);
  CHECK(ids_of(done(relay.turn())) == Ids{"now", "any"});
  outbox.fixture->advance(1h - 10s);
  CHECK(done(relay.turn()).leased.empty());
  outbox.fixture->advance(12s);
  CHECK(ids_of(done(relay.turn())) == Ids{"later"});
  outbox.fixture->advance(24h * 30);
  CHECK(done(relay.turn()).leased.empty());
}

TEST_CASE("while fresh rows wait, retries get their share and no more") {
  Outbox outbox;
  outbox.insert({"r1", "r2", "r3", "r4"});
  Client relay(*outbox.fixture);
  std::vector<Settlement> verdicts;
  for (const Message& message : done(relay.turn()).leased) verdicts.push_back(retry(message, 1s));
  done(relay.settle(verdicts));
  outbox.insert({"f1", "f2", "f3", "f4"});
  outbox.fixture->advance(2s);
  relay.request.retry_limit = 1;
  relay.request.limit = 3;
  CHECK(ids_of(done(relay.turn())) == Ids{"r1", "f1", "f2"});
}

TEST_CASE("capacity that fresh rows leave is the retries', and the other way round") {
  Outbox outbox;
  outbox.insert({"r1", "r2", "r3"});
  Client relay(*outbox.fixture);
  std::vector<Settlement> verdicts;
  for (const Message& message : done(relay.turn()).leased) verdicts.push_back(retry(message, 1s));
  done(relay.settle(verdicts));
  outbox.insert({"f1"});
  outbox.fixture->advance(2s);
  relay.request.retry_limit = 1;
  CHECK(ids_of(done(relay.turn())) == Ids{"r1", "r2", "r3", "f1"});
  outbox.insert({"f2", "f3"});
  CHECK(ids_of(done(relay.turn())) == Ids{"f2", "f3"});
}

TEST_CASE("retries without a limit of their own come in the order of the table") {
  Outbox outbox;
  outbox.insert({"a", "b", "c", "d"});
  Client relay(*outbox.fixture);
  const Turn turn = done(relay.turn());
  done(relay.settle({released(turn.leased.at(0)), retry(turn.leased.at(1), 1s),
                     released(turn.leased.at(2)), retry(turn.leased.at(3), 1s)}));
  outbox.fixture->advance(2s);
  relay.request.limit = 3;
  CHECK(ids_of(done(relay.turn())) == Ids{"a", "b", "c"});
  CHECK(ids_of(done(relay.turn())) == Ids{"d"});
}

TEST_CASE("the retry that has been due longest comes first") {
  Outbox outbox;
  outbox.insert({"a", "b", "c"});
  Client relay(*outbox.fixture);
  const Turn turn = done(relay.turn());
  done(relay.settle(
      {retry(turn.leased.at(0), 3s), retry(turn.leased.at(1), 1s), retry(turn.leased.at(2), 2s)}));
  outbox.fixture->advance(5s);
  relay.request.limit = 2;
  relay.request.retry_limit = 1;
  CHECK(ids_of(done(relay.lease(2))) == Ids{"b", "c"});
}

TEST_CASE("rows that wait for the broker's recovery are due when it is back") {
  Outbox outbox;
  outbox.insert({"a", "b"});
  Client relay(*outbox.fixture);
  const Turn turn = done(relay.turn());
  Settlement waiting = retry(turn.leased.at(0), 1h);
  waiting.waits_for_recovery = true;
  const Turn settled = done(relay.settle({waiting, retry(turn.leased.at(1), 1h)}));
  CHECK(done(relay.turn()).leased.empty());
  relay.request.recovered = settled.epoch - 1;
  CHECK(done(relay.turn()).leased.empty());
  relay.request.recovered = settled.epoch;
  const Turn recovered = done(relay.turn());
  CHECK(ids_of(recovered) == Ids{"a"});
  waiting = retry(recovered.leased.at(0), 1h);
  waiting.waits_for_recovery = true;
  done(relay.settle({waiting}));
  CHECK(done(relay.turn()).leased.empty());
}

TEST_CASE("a probe takes a row that waits for recovery when no other is due") {
  Outbox outbox;
  outbox.insert({"a", "b"});
  Client relay(*outbox.fixture);
  const Turn turn = done(relay.turn());
  std::vector<Settlement> verdicts{retry(turn.leased.at(0), 1h), retry(turn.leased.at(1), 1h)};
  for (Settlement& verdict : verdicts) verdict.waits_for_recovery = true;
  done(relay.settle(verdicts));
  relay.request.probe = true;
  relay.request.limit = 1;
  relay.request.retry_limit = 1;
  const Turn probe = done(relay.turn());
  REQUIRE(probe.leased.size() == 1);
  Settlement failed = retry(probe.leased[0], 1h);
  failed.waits_for_recovery = true;
  done(relay.settle({failed}));
  // Another row each time; one that never failed before all others.
  const Turn next = done(relay.turn());
  REQUIRE(next.leased.size() == 1);
  CHECK(next.leased[0].id != probe.leased[0].id);
  outbox.insert({"fresh"});
  CHECK(ids_of(done(relay.turn())) == Ids{"fresh"});
}

TEST_CASE("a row that took relays down is leased with nothing beside it") {
  Outbox outbox;
  outbox.insert({"a"});
  for (int deaths = 0; deaths < 2; ++deaths) {
    Client victim(*outbox.fixture);
    REQUIRE(done(victim.turn()).leased.size() == 1);
    victim.die();
    outbox.fixture->advance(31s);
  }
  outbox.insert({"b", "c"});
  Client relay(*outbox.fixture);
  const Turn alone = done(relay.turn());
  CHECK(ids_of(alone) == Ids{"a"});
  CHECK(alone.leased.at(0).alone);
  CHECK(alone.leased.at(0).history.outcome_unknown);
  relay.request.holding = 1;
  CHECK(ids_of(done(relay.turn())) == Ids{"b", "c"});
}

TEST_CASE("a row that must be alone is waited for") {
  Outbox outbox;
  outbox.insert({"a"});
  for (int deaths = 0; deaths < 2; ++deaths) {
    Client victim(*outbox.fixture);
    REQUIRE(done(victim.turn()).leased.size() == 1);
    victim.die();
    outbox.fixture->advance(31s);
  }
  Client relay(*outbox.fixture);
  relay.request.holding = 1;
  const Turn first = done(relay.turn());
  CHECK(first.leased.empty());
  CHECK(first.wants_solitude);
  outbox.insert({"b"});
  CHECK(done(relay.turn()).leased.empty());
  relay.request.holding = 0;
  const Turn second = done(relay.turn());
  CHECK(ids_of(second) == Ids{"a"});
  CHECK(second.leased.at(0).alone);
}

TEST_CASE("a row that takes five relays down while alone is buried, and no other") {
  Outbox outbox;
  outbox.fixture->insert({.id = "killer", .event_type = "bad.news"});
  outbox.insert({"innocent"});
  std::size_t deaths = 0;
  std::vector<BuriedRow> buried;
  for (; deaths < 20 && buried.empty(); ++deaths) {
    Client victim(*outbox.fixture);
    const Turn turn = done(victim.turn());
    buried = turn.buried;
    victim.die();
    outbox.fixture->advance(31s);
  }
  REQUIRE(buried.size() == 1);
  CHECK(deaths == 8);  // two in company, five alone, and the one that found out
  CHECK(buried[0].id == "killer");
  CHECK(buried[0].event_type == "bad.news");
  CHECK(outbox.fixture->read("killer").status == "DeadLettered");
  CHECK(outbox.fixture->read("killer").dead_letter_reason == "crashed");
  CHECK(outbox.fixture->read("innocent").status == "Pending");
}

TEST_CASE("after retire() the leases are free at once") {
  Outbox outbox;
  outbox.insert({"a"});
  Client relay(*outbox.fixture);
  Client other(*outbox.fixture);
  done(relay.turn());
  CHECK(done(other.turn()).leased.empty());
  relay.store().retire();
  const Turn turn = done(other.turn());
  CHECK(ids_of(turn) == Ids{"a"});
  CHECK(turn.taken_over == 0);
}

TEST_CASE("by key: one relay at a time has rows of a key, in order") {
  Outbox outbox;
  for (const auto* id : {"a1", "a2", "a3"}) outbox.insert_keyed(id, "a");
  outbox.insert_keyed("b1", "b");
  outbox.insert({"free"});
  Client one(*outbox.fixture);
  Client other(*outbox.fixture);
  one.request.ordering = other.request.ordering = Ordering::key;
  const Turn first = done(one.lease(2));
  CHECK(ids_of(first) == Ids{"a1", "a2"});
  CHECK(ids_of(done(other.turn())) == Ids{"b1", "free"});
  // Its own followers may join the head that it holds.
  const Turn follower = done(one.turn());
  CHECK(ids_of(follower) == Ids{"a3"});
  done(one.settle({delivered(first.leased.at(0)), released(first.leased.at(1)),
                   released(follower.leased.at(0))}));
  CHECK(ids_of(done(other.turn())) == Ids{"a2", "a3"});
}

TEST_CASE("by key: nothing overtakes a head that waits for its retry") {
  Outbox outbox;
  outbox.insert_keyed("a1", "a");
  outbox.insert_keyed("a2", "a");
  outbox.insert_keyed("b1", "b");
  Client relay(*outbox.fixture);
  relay.request.ordering = Ordering::key;
  const Turn turn = done(relay.turn());
  REQUIRE(turn.leased.size() == 3);
  const Turn next = done(relay.turn(
      {retry(turn.leased[0], 10s), released(turn.leased[1]), delivered(turn.leased[2])}));
  CHECK(next.leased.empty());
  outbox.insert_keyed("a3", "a");
  CHECK(done(relay.turn()).leased.empty());
  outbox.fixture->advance(11s);
  relay.request.retry_limit = 1;
  CHECK(ids_of(done(relay.turn())) == Ids{"a1", "a2", "a3"});
}

TEST_CASE("by key: a dead head blocks its key, or is passed if that is asked for") {
  Outbox outbox;
  outbox.insert_keyed("a1", "a");
  outbox.insert_keyed("a2", "a");
  outbox.insert_keyed("b1", "b");
  Client relay(*outbox.fixture);
  relay.request.ordering = Ordering::key;
  const Turn turn = done(relay.lease(1));
  CHECK(ids_of(done(relay.turn({dead(turn.leased.at(0), DeadReason::permanent)}))) == Ids{"b1"});
  outbox.fixture->advance(2s);
  CHECK(done(relay.turn()).leased.empty());
  relay.request.dead_blocks_key = false;
  outbox.fixture->advance(2s);
  CHECK(ids_of(done(relay.turn())) == Ids{"a2"});
}

TEST_CASE("by key: a redriven head comes before its followers") {
  Outbox outbox;
  outbox.insert_keyed("a1", "a");
  outbox.insert_keyed("a2", "a");
  Client relay(*outbox.fixture);
  relay.request.ordering = Ordering::key;
  const Turn turn = done(relay.lease(1));
  done(relay.settle({dead(turn.leased.at(0), DeadReason::permanent)}));
  CHECK(done(relay.turn()).leased.empty());
  const auto desk = outbox.fixture->open_desk();
  REQUIRE(desk->redrive({}, "again").value == 1);
  outbox.fixture->advance(2s);
  CHECK(ids_of(done(relay.turn())) == Ids{"a1", "a2"});
}

TEST_CASE("without ordering a key holds nobody back") {
  Outbox outbox;
  outbox.insert_keyed("a1", "a");
  outbox.insert_keyed("a2", "a");
  Client one(*outbox.fixture);
  Client other(*outbox.fixture);
  CHECK(ids_of(done(one.lease(1))) == Ids{"a1"});
  CHECK(ids_of(done(other.turn())) == Ids{"a2"});
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
