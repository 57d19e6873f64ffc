// Leases: who gets which row, and for how long.
#include "tests/conformance/store_cases.h"

namespace outbox::conformance {
namespace {

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

TEST_CASE("a repeated turn returns its rows even if it had nothing to settle") {
  Outbox outbox;
  outbox.insert({"a", "b"});
  Client relay(*outbox.fixture);
  const Turn first = done(relay.turn());
  REQUIRE(first.leased.size() == 2);
  const Turn repeated = done(relay.repeat());
  CHECK(ids_of(repeated) == Ids{"a", "b"});
  CHECK(repeated.epoch == first.epoch);
  CHECK(done(relay.turn()).leased.empty());
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
    const std::string column = outbox.fixture->column(i < 4 ? "headers" : "event_type");
    CHECK(turn.leased[i].defect->find(column) != std::string::npos);
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

}  // namespace
}  // namespace outbox::conformance
