// A row's state and leases are its own: never those of another row in its place.
#include <doctest/doctest.h>

#include "tests/conformance/sqlite_fixture.h"

namespace outbox::conformance {
namespace {

using namespace std::chrono_literals;
using Ids = std::vector<std::string>;

TEST_CASE("what was noted of a row is not taken for another one in its place") {
  for (const bool confirmed : {true, false}) {
    CAPTURE(confirmed);
    SqliteFixture fixture;
    // Too large to be rewritten: its state stands beside it.
    fixture.insert({.id = "old", .payload = std::string(2u << 20, 'x')});
    const std::string schema = fixture.application()
                                   .execAndGet(
                                       "SELECT group_concat(sql, ';') FROM sqlite_schema "
                                       "WHERE tbl_name = 'outbox_messages'")
                                   .getString();
    Client relay(fixture);
    const Turn turn = committed(relay.turn());
    REQUIRE(turn.leased.size() == 1);
    committed(relay.settle(
        {confirmed ? delivered(turn.leased[0]) : dead(turn.leased[0], DeadReason::permanent)}));
    fixture.application().exec("DROP TABLE outbox_messages; " + schema);
    fixture.insert({.id = "new", .payload = "p"});
    fixture.advance(2s);
    const Turn next = committed(relay.turn());
    CHECK(ids_of(next) == Ids{"new"});
    CHECK(fixture.open_desk()->backlog().value.dead_lettered == 0);
    CHECK(fixture.open_desk()->dead_letters({}).value.empty());
    committed(relay.settle({retry(next.leased.at(0), 1s)}));
    fixture.advance(2s);
    const Turn again = committed(relay.turn());
    CHECK(ids_of(again) == Ids{"new"});
    CHECK(again.leased.at(0).history.retry_count == 1);
    committed(relay.settle({delivered(again.leased[0])}));
    CHECK(fixture.read("new").status == "Processed");
  }
}

TEST_CASE("a defect that was noted of one event kills no other in its place") {
  SqliteFixture fixture;
  const std::string schema = fixture.application()
                                 .execAndGet(
                                     "SELECT group_concat(sql, ';') FROM sqlite_schema "
                                     "WHERE tbl_name = 'outbox_messages'")
                                 .getString();
  fixture.insert({.id = "broken", .headers = std::string(6u << 20, 'h')});
  Client relay(fixture);
  const Turn turn = committed(relay.turn());
  REQUIRE(turn.leased.size() == 1);
  CHECK(turn.leased[0].defect == "a column holds more than 4194304 bytes");
  committed(relay.settle({dead(turn.leased[0], DeadReason::invalid_row)}));
  CHECK(fixture.open_desk()->dead_letters({}).value.size() == 1);
  fixture.application().exec("DROP TABLE outbox_messages; " + schema);
  fixture.insert({.id = "innocent"});
  fixture.advance(2s);
  CHECK(fixture.open_desk()->dead_letters({}).value.empty());
  CHECK(ids_of(committed(relay.turn())) == Ids{"innocent"});
}

TEST_CASE("who takes over forgets what was noted of another event, and doubts this one") {
  SqliteFixture fixture;
  fixture.insert({.id = "one"});
  {
    Client relay(fixture);
    committed(relay.settle({retry(committed(relay.turn()).leased.at(0), 1s)}));
  }
  fixture.application().exec("UPDATE outbox_messages SET id = 'two'");
  for (int crash = 0; crash < 3; ++crash) {
    fixture.advance(2s);
    Client relay(fixture);
    const Turn turn = committed(relay.turn());
    REQUIRE(ids_of(turn) == Ids{"two"});
    CHECK(turn.leased[0].history.outcome_unknown == (crash > 0));
    CHECK(turn.leased[0].alone == (crash > 1));
    CHECK(turn.leased[0].history.counted == 0);
    relay.die();
  }
}

TEST_CASE("an event is not doubted for another one that had its key") {
  SqliteFixture fixture;
  fixture.insert({.id = "one"});
  {
    Client relay(fixture);
    committed(relay.turn());
    relay.die();
  }
  Client other(fixture);
  const Turn turn = committed(other.turn());
  REQUIRE(turn.leased.at(0).history.outcome_unknown);
  committed(other.settle({released(turn.leased[0])}));
  fixture.application().exec("UPDATE outbox_messages SET id = 'two'");
  fixture.advance(2s);
  const Turn next = committed(other.turn());
  REQUIRE(ids_of(next) == Ids{"two"});
  CHECK_FALSE(next.leased[0].history.outcome_unknown);
}

TEST_CASE("a settlement marks no other row in the place of the one that was leased") {
  for (const char* verdict : {"delivered", "retry", "dead", "released"}) {
    CAPTURE(verdict);
    SqliteFixture fixture;
    fixture.insert({.id = "one"});
    Client relay(fixture);
    const Message leased = committed(relay.turn()).leased.at(0);
    fixture.application().exec("UPDATE outbox_messages SET id = 'two' WHERE id = 'one'");
    const std::string name = verdict;
    const Settlement settlement = name == "delivered" ? delivered(leased)
                                  : name == "retry"   ? retry(leased, 1s)
                                  : name == "dead"    ? dead(leased, DeadReason::permanent)
                                                      : released(leased);
    CHECK(committed(relay.settle({settlement})).fenced == (name == "released" ? 0 : 1));
    CHECK(fixture.read("two").status == "Pending");
    fixture.advance(2s);
    const Turn next = committed(relay.turn());
    REQUIRE(ids_of(next) == Ids{"two"});
    CHECK(next.leased[0].history.retry_count == 0);
  }
}

TEST_CASE("the relay's tables of an earlier version get what they lack") {
  SqliteFixture fixture;
  fixture.application().exec("ALTER TABLE outbox_relay_rows DROP COLUMN fingerprint");
  fixture.insert({.id = "a"});
  Client relay(fixture);
  const Turn turn = committed(relay.turn());
  REQUIRE(ids_of(turn) == Ids{"a"});
  committed(relay.settle({retry(turn.leased[0], 1s)}));
  CHECK(fixture.number("SELECT count(*) FROM outbox_relay_rows WHERE fingerprint > 0") == 1);
}

}  // namespace
}  // namespace outbox::conformance
