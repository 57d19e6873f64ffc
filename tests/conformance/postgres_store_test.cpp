// What is PostgreSQL's own about the store.
#include <fmt/format.h>

#include "storage/postgres/schema.h"
#include "tests/conformance/postgres_fixture.h"
#include "tests/conformance/store_cases.h"

namespace outbox::conformance {
namespace {

struct Postgres {
  PostgresFixture fixture;

  void insert(const Ids& ids) {
    for (const auto& id : ids) fixture.insert({.id = id});
  }
  template <class... Values>
  postgres::Rows run(const std::string& sql, const Values&... values) {
    return fixture.run(fmt::format(fmt::runtime(sql), fixture.schema()), values...);
  }
  std::int64_t number(const std::string& sql) {
    postgres::Rows rows = run(sql);
    return rows.next() ? rows.integer(0) : -1;
  }
};

TEST_CASE("a relay that turns up after its leases were taken away was not dead after all") {
  Postgres outbox;
  outbox.insert({"a"});
  Client slow(outbox.fixture);
  Client other(outbox.fixture);
  for (int round = 0; round < 3; ++round) {
    const Turn leased = done(slow.turn());
    REQUIRE(leased.leased.size() == 1);
    CHECK_FALSE(leased.leased[0].alone);
    outbox.fixture.advance(31s);
    const Turn taken = done(other.turn());
    REQUIRE(taken.leased.size() == 1);
    CHECK(done(slow.turn()).leases_lost == false);
    // It notices with the next turn that writes.
    CHECK(done(slow.settle({retry(leased.leased[0], 1s)})).leases_lost);
    done(other.settle({released(taken.leased[0])}));
  }
  CHECK(outbox.number("SELECT takeovers FROM {}.outbox_relay_rows") == 0);
}

TEST_CASE("leases of a relay that nobody knows any more end by a term") {
  Postgres outbox;
  outbox.insert({"a"});
  Client gone(outbox.fixture);
  REQUIRE(done(gone.turn()).leased.size() == 1);
  gone.die();
  outbox.run("DELETE FROM {}.outbox_relay_incarnations");
  Client other(outbox.fixture);
  outbox.insert({"b"});
  CHECK(ids_of(done(other.turn())) == Ids{"b"});
  outbox.fixture.advance(31s);
  CHECK(ids_of(done(other.turn())) == Ids{"a"});
}

TEST_CASE("a row whose trigger names what is not there spoils no other") {
  Postgres outbox;
  outbox.insert({"a", "b", "c"});
  outbox.run(
      "CREATE FUNCTION {0}.broken() RETURNS trigger LANGUAGE plpgsql AS "
      "$$ BEGIN INSERT INTO {0}.no_such_table VALUES (1); RETURN new; END $$");
  outbox.run(
      "CREATE TRIGGER broken BEFORE UPDATE ON {0}.outbox_messages FOR EACH ROW "
      "WHEN (old.id = 'b') EXECUTE FUNCTION {0}.broken()");
  Client relay(outbox.fixture);
  const Turn leased = done(relay.turn());
  std::vector<Settlement> verdicts;
  for (const Message& message : leased.leased) verdicts.push_back(delivered(message));
  Turn settled = relay.settle(verdicts);
  for (int tries = 0; settled.status == TurnStatus::busy && tries < 5; ++tries) {
    settled = relay.repeat(verdicts);
  }
  REQUIRE_MESSAGE(settled.status == TurnStatus::committed, settled.error);
  CHECK(settled.isolated == 1);
  CHECK(settled.isolated_error.find("no_such_table") != std::string::npos);
  CHECK(outbox.fixture.read("a").status == "Processed");
  CHECK(outbox.fixture.read("b").status == "Pending");
  CHECK(outbox.fixture.read("c").status == "Processed");
  outbox.fixture.advance(2s);
  CHECK(done(relay.turn()).leased.empty());
}

TEST_CASE("a column that gets another type while the relay runs is read as what it is now") {
  Postgres outbox;
  outbox.insert({"a"});
  Client relay(outbox.fixture);
  CHECK(ids_of(done(relay.turn())) == Ids{"a"});
  outbox.insert({"b"});
  outbox.run("ALTER TABLE {0}.outbox_messages ALTER headers TYPE jsonb USING headers::jsonb");
  Turn turn = relay.turn();
  for (int tries = 0; turn.status == TurnStatus::busy && tries < 5; ++tries) turn = relay.turn();
  CHECK(ids_of(done(std::move(turn))) == Ids{"b"});
}

TEST_CASE("tables that stay other than they should be are not asked as fast as possible") {
  Postgres outbox;
  outbox.insert({"a"});
  Client relay(outbox.fixture);
  outbox.run("ALTER TABLE {0}.outbox_relay_leases RENAME COLUMN noted TO odd");
  Turn turn = relay.turn();
  for (int tries = 0; turn.status == TurnStatus::busy && tries < 9; ++tries)
    turn = relay.repeat({});
  CHECK(turn.status == TurnStatus::failed);
  CHECK(turn.error.find("noted") != std::string::npos);
  outbox.run("ALTER TABLE {0}.outbox_relay_leases RENAME COLUMN odd TO noted");
  CHECK(ids_of(done(relay.repeat({}))) == Ids{"a"});
}

TEST_CASE("a table that lost a column is unusable until it is mended") {
  Postgres outbox;
  outbox.insert({"a"});
  Client relay(outbox.fixture);
  outbox.run("ALTER TABLE {0}.outbox_messages RENAME COLUMN payload TO body");
  Turn turn = relay.turn();
  for (int tries = 0; turn.status == TurnStatus::busy && tries < 5; ++tries) turn = relay.turn();
  CHECK(turn.status == TurnStatus::unusable);
  CHECK(turn.error.find("payload") != std::string::npos);
  outbox.run("ALTER TABLE {0}.outbox_messages RENAME COLUMN body TO payload");
  outbox.fixture.advance(10s);
  CHECK(ids_of(done(relay.turn())) == Ids{"a"});
}

TEST_CASE(
    "a table that was replaced is taken for a new one, and nothing is settled in it by mistake") {
  Postgres outbox;
  outbox.insert({"a"});
  Client relay(outbox.fixture);
  const Turn leased = done(relay.turn());
  outbox.run("DROP TABLE {0}.outbox_messages");
  outbox.fixture.advance(1s);
  outbox.fixture.application().begin_work();
  postgres::apply_schema(outbox.fixture.application(), outbox.fixture.settings());
  outbox.insert({"another"});
  const std::vector<Settlement> verdicts{delivered(leased.leased.at(0))};
  Turn turn = relay.settle(verdicts);
  for (int tries = 0; turn.status == TurnStatus::busy && tries < 5; ++tries) {
    turn = relay.repeat(verdicts);
  }
  REQUIRE_MESSAGE(turn.status == TurnStatus::committed, turn.error);
  CHECK(turn.fenced == 1);
  CHECK(outbox.fixture.read("another").status == "Pending");
}

TEST_CASE("without the relay's own tables nothing is leased, and the command is named") {
  Postgres outbox;
  outbox.run("DROP TABLE {0}.outbox_relay_leases");
  Client relay(outbox.fixture);
  const Turn turn = relay.turn();
  CHECK(turn.status == TurnStatus::unusable);
  CHECK(turn.error.find("outbox_relay_leases") != std::string::npos);
  CHECK(turn.error.find("outbox-relay init --apply") != std::string::npos);
}

TEST_CASE("times without an end do no harm") {
  Postgres outbox;
  outbox.run(
      "INSERT INTO {0}.outbox_messages (id, event_type, payload, occurred_on_utc, not_before_utc) "
      "VALUES ('old', 'x', '', '-infinity', '-infinity'), ('never', 'x', '', now(), 'infinity')");
  outbox.run(
      "INSERT INTO {0}.outbox_messages (id, event_type, payload, status, next_attempt_on_utc) "
      "VALUES ('stuck', 'x', '', 'Failed', 'infinity'), ('dueless', 'x', '', 'Failed', NULL)");
  Client relay(outbox.fixture);
  const Turn turn = done(relay.turn());
  // A due time that no delay explains counts as due.
  CHECK(ids_of(turn) == Ids{"old", "stuck", "dueless"});
  CHECK(turn.leased[0].defect.has_value());
  done(relay.turn());
}

TEST_CASE("bytes that no text can hold become an error text all the same") {
  Postgres outbox;
  outbox.insert({"a"});
  Client relay(outbox.fixture);
  Settlement failure = retry(done(relay.turn()).leased.at(0), 1s);
  failure.reason = std::string("bad \0 and \xff\xfe", 12);
  CHECK(done(relay.settle({failure})).isolated == 0);
  CHECK(outbox.fixture.read("a").last_error.value_or("").starts_with("bad ? and"));
}

}  // namespace
}  // namespace outbox::conformance
