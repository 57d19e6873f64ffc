// How often an idle relay asks the server.
#include <fmt/format.h>

#include <thread>

#include "storage/postgres/schema.h"
#include "tests/conformance/postgres_fixture.h"
#include "tests/conformance/store_cases.h"

namespace outbox::conformance {
namespace {

constexpr auto kPoll = 1s;
constexpr auto kPatience = 20s;

// One relay that looks each second, by the test's clock.
struct Idle {
  PostgresFixture fixture;
  Client relay{fixture};

  explicit Idle(bool trigger = true) {
    if (trigger) create_trigger();
    done(relay.turn());  // connects
  }

  void create_trigger() {
    fixture.run(
        fmt::format("CREATE FUNCTION {}.outbox_relay_notify() RETURNS trigger LANGUAGE "
                    "plpgsql AS $$ BEGIN PERFORM pg_notify('outbox_relay', TG_TABLE_NAME); "
                    "RETURN NULL; END $$",
                    fixture.schema()));
    fixture.run(
        fmt::format("CREATE TRIGGER outbox_relay_notify AFTER INSERT ON {0}.outbox_messages "
                    "FOR EACH STATEMENT EXECUTE FUNCTION {0}.outbox_relay_notify()",
                    fixture.schema()));
  }

  // When the server last did anything for the relay.
  std::string last_work() {
    postgres::Rows rows = fixture.run(
        "SELECT string_agg(state_change::text, ' ') FROM pg_stat_activity "
        "WHERE application_name LIKE 'outbox-relay relay%' AND datname = current_database()");
    return rows.next() ? rows.text(0) : "";
  }
  // A poll later. True if the server was asked.
  bool poll(Turn& turn) {
    fixture.advance(kPoll);
    const std::string before = last_work();
    turn = done(relay.turn());
    return last_work() != before;
  }
  int looks(int polls) {
    Turn turn;
    int looks = 0;
    for (int i = 0; i < polls; ++i) looks += poll(turn) ? 1 : 0;
    return looks;
  }
  // Waits until the store has told of something.
  bool is_told(int rings) {
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (fixture.bell().rings() == rings && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(1ms);
    }
    return fixture.bell().rings() > rings;
  }
};

TEST_CASE("an idle relay that is told of new rows asks less and less often") {
  Idle idle;
  CHECK(idle.looks(60) <= 15);
  // At most each fifth second, and no less.
  CHECK(idle.looks(60) == 12);
  const int before = idle.fixture.bell().rings();
  idle.fixture.insert({.id = "a"});
  REQUIRE(idle.is_told(before));
  const Turn turn = done(idle.relay.turn());
  CHECK(ids_of(turn) == Ids{"a"});
  done(idle.relay.settle({delivered(turn.leased.at(0))}));
  // It begins again with each poll.
  CHECK(idle.looks(2) == 2);
}

TEST_CASE("a relay is told of new rows while others travel, and not again of those") {
  Idle idle;
  int rings = idle.fixture.bell().rings();
  idle.fixture.insert({.id = "a"});
  REQUIRE(idle.is_told(rings));
  rings = idle.fixture.bell().rings();
  REQUIRE(done(idle.relay.turn()).leased.size() == 1);
  CHECK(idle.fixture.bell().rings() == rings);
  idle.fixture.insert({.id = "b"});
  CHECK(idle.is_told(rings));
}

TEST_CASE("without the trigger each poll is a look") {
  Idle idle(false);
  CHECK(idle.looks(20) == 20);
}

TEST_CASE("a trigger that is disabled or dropped is not relied on") {
  Idle idle;
  const std::string table = idle.fixture.schema() + ".outbox_messages";
  idle.looks(20);
  idle.fixture.run("ALTER TABLE " + table + " DISABLE TRIGGER outbox_relay_notify");
  idle.looks(5);
  CHECK(idle.looks(20) == 20);
  idle.fixture.run("ALTER TABLE " + table + " ENABLE TRIGGER outbox_relay_notify");
  idle.looks(60);
  CHECK(idle.looks(20) == 4);
}

TEST_CASE("what is due at a known time is not looked at late") {
  Idle idle;
  const int before = idle.fixture.bell().rings();
  idle.fixture.insert({.id = "a"});
  REQUIRE(idle.is_told(before));
  done(idle.relay.settle({retry(done(idle.relay.turn()).leased.at(0), 33s)}));
  Turn turn;
  int looks = 0;
  for (int second = 1; second < 33; ++second) {
    looks += idle.poll(turn) ? 1 : 0;
    REQUIRE(turn.leased.empty());
    REQUIRE(turn.next_due.has_value());
    CHECK(*turn.next_due == 33s - second * kPoll);
  }
  CHECK(looks < 15);
  idle.poll(turn);
  CHECK(ids_of(turn) == Ids{"a"});
}

TEST_CASE("rows that nobody tells of are looked for with each poll") {
  Idle idle;
  SUBCASE("a time before which the application wants it unsent") {
    idle.fixture.insert({.id = "a", .not_before = 40s});
  }
  SUBCASE("another relay has it") {
    Client other(idle.fixture);
    idle.fixture.insert({.id = "a"});
    REQUIRE(ids_of(done(other.turn())) == Ids{"a"});
  }
  SUBCASE("an operator has paused the outbox") {
    REQUIRE(idle.fixture.open_desk()->pause(true, "test").ok());
  }
  CHECK(idle.looks(20) == 20);
}

TEST_CASE("a redrive is told of") {
  Idle idle;
  const int before = idle.fixture.bell().rings();
  idle.fixture.insert({.id = "a"});
  REQUIRE(idle.is_told(before));
  const Turn leased = done(idle.relay.turn());
  done(idle.relay.settle({dead(leased.leased.at(0), DeadReason::permanent)}));
  idle.looks(20);
  const int quiet = idle.fixture.bell().rings();
  REQUIRE(idle.fixture.open_desk()->redrive({}, "mended", {}).value == 1);
  REQUIRE(idle.is_told(quiet));
  CHECK(ids_of(done(idle.relay.turn())) == Ids{"a"});
}

TEST_CASE("an idle relay notices at once that its connection has ended") {
  Idle idle;
  idle.looks(20);
  const int before = idle.fixture.bell().rings();
  idle.fixture.run(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
      "WHERE application_name LIKE 'outbox-relay relay%' AND datname = current_database()");
  REQUIRE(idle.is_told(before));
  CHECK(idle.relay.turn().status == TurnStatus::failed);
  idle.fixture.advance(kPoll);
  done(idle.relay.turn());
}

}  // namespace
}  // namespace outbox::conformance
