// What a turn reads before it knows whether it may lease it.
#include <fmt/format.h>

#include <chrono>
#include <future>
#include <thread>

#include "tests/conformance/postgres_fixture.h"
#include "tests/conformance/store_cases.h"

namespace outbox::conformance {
namespace {

// A relay that has found rows before, so that its statements are prepared and rows are read whole.
struct Scene {
  PostgresFixture fixture;
  Client relay{fixture};

  Scene() {
    for (int row = 0; row < 2; ++row) {
      fixture.insert({.id = fmt::format("first-{}", row)});
      const Turn found = done(relay.turn());
      REQUIRE(found.leased.size() == 1);
      done(relay.turn({delivered(found.leased[0])}));
    }
  }
  void run(const std::string& sql) {
    fixture.run(fmt::format(fmt::runtime(sql), fixture.schema()));
  }
  // As if another relay had taken each row over just before the lease was written.
  void note_what_is_leased() {
    run("CREATE FUNCTION {0}.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "INSERT INTO {0}.outbox_relay_rows (outbox, row_key, outcome_unknown) "
        "VALUES (NEW.outbox, NEW.row_key, true) ON CONFLICT DO NOTHING; RETURN NEW; END $$");
    run("CREATE TRIGGER note BEFORE INSERT ON {0}.outbox_relay_leases FOR EACH ROW "
        "EXECUTE FUNCTION {0}.note()");
  }
  std::int64_t leases() {
    postgres::Rows rows =
        fixture.run(fmt::format("SELECT count(*) FROM {}.outbox_relay_leases", fixture.schema()));
    rows.next();
    return rows.integer(0);
  }
};

// Whether a session of that database waits for a lock.
bool anybody_waits(PostgresFixture& fixture) {
  postgres::Rows rows = fixture.run(
      "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = "
      "current_database()");
  return rows.next();
}

}  // namespace

TEST_CASE("what is noted beside a row while it is being leased is known when it is sent") {
  Scene scene;
  scene.note_what_is_leased();
  scene.fixture.insert({.id = "a"});
  const Turn early = done(scene.relay.turn());
  CHECK(early.leased.empty());
  CHECK(early.more);
  const Turn late = done(scene.relay.turn());
  REQUIRE(late.leased.size() == 1);
  CHECK(late.leased[0].id == "a");
  CHECK(late.leased[0].history.outcome_unknown);
  CHECK(scene.leases() == 1);
  CHECK(done(scene.relay.turn({delivered(late.leased[0])})).fenced == 0);
  CHECK(scene.fixture.read("a").status == "Processed");
  CHECK(scene.leases() == 0);
}

TEST_CASE(
    "what is noted beside a row while it is being leased is known when the turn is repeated") {
  Scene scene;
  scene.note_what_is_leased();
  scene.fixture.insert({.id = "a"});
  CHECK(done(scene.relay.turn()).leased.empty());
  // As if the answer to its commit had been lost.
  CHECK(done(scene.relay.repeat()).leased.empty());
  const Turn late = done(scene.relay.turn());
  REQUIRE(ids_of(late) == Ids{"a"});
  CHECK(late.leased[0].history.outcome_unknown);
  CHECK(scene.leases() == 1);
}

TEST_CASE("what was noted beside a row's predecessor with the same key holds nothing up") {
  Scene scene;
  scene.fixture.insert({.id = "a"});
  scene.run(
      "INSERT INTO {0}.outbox_relay_rows (outbox, row_key, outcome_unknown, fingerprint) "
      "SELECT (SELECT outbox FROM {0}.outbox_relay_incarnations LIMIT 1), sequence::text, true, 1 "
      "FROM {0}.outbox_messages WHERE id = 'a'");
  const Turn turn = done(scene.relay.turn());
  REQUIRE(turn.leased.size() == 1);
  CHECK(!turn.leased[0].history.outcome_unknown);
}

TEST_CASE("a row that is changed while it is being leased is sent as it is then") {
  Scene scene;
  postgres::Connection application(postgres::connection_settings(scene.fixture.settings(), "app"));
  int met = 0;
  for (int round = 0; round < 50 && met < 3; ++round) {
    const std::string id = fmt::format("row-{}", round);
    scene.fixture.insert({.id = id, .payload = "before"});
    application.begin_work();
    application.begin(false);
    // A relay locks its own row when it has seen what there is.
    postgres::ask(application, fmt::format("SELECT 1 FROM {}.outbox_relay_incarnations FOR UPDATE",
                                           scene.fixture.schema()));
    auto turning = std::async(std::launch::async, [&] { return scene.relay.turn(); });
    const auto waits = [&] { return anybody_waits(scene.fixture); };
    while (!waits() && turning.wait_for(0s) != std::future_status::ready) {
      std::this_thread::yield();
    }
    const bool waited = turning.wait_for(0s) != std::future_status::ready;
    postgres::ask(application,
                  fmt::format("UPDATE {}.outbox_messages SET payload = 'after' WHERE id = $1",
                              scene.fixture.schema()),
                  id);
    application.commit();
    Turn turn = turning.get();
    if (waited && turn.status == TurnStatus::committed) ++met;
    for (int again = 0; again < 100 && turn.leased.empty(); ++again) {
      scene.fixture.advance(1s);
      turn = scene.relay.turn();
    }
    REQUIRE(turn.leased.size() == 1);
    CHECK(turn.leased[0].payload == "after");
    done(scene.relay.turn({delivered(turn.leased[0])}));
  }
  CHECK(met > 0);
}

// Whatever travels with it, and whether or not that is made ready for the first time.
TEST_CASE("a row that refuses its verdict is told from what was sent with it") {
  for (int before = 0; before < 4; ++before) {
    CAPTURE(before);
    PostgresFixture fixture;
    Client relay(fixture);
    for (int row = 0; row < before; ++row) {
      fixture.insert({.id = fmt::format("row-{}", row)});
      done(relay.turn({delivered(done(relay.turn()).leased.at(0))}));
    }
    fixture.insert({.id = "a"});
    fixture.insert({.id = "b"});
    relay.request.limit = 1;
    Turn turn = done(relay.turn());
    turn = done(relay.turn({delivered(turn.leased.at(0))}));
    REQUIRE(ids_of(turn) == Ids{"b"});
    fixture.refuse_changes("b");
    CHECK(done(relay.turn({delivered(turn.leased.at(0))})).isolated == 1);
  }
}

TEST_CASE("a row that refuses its verdict is told from leases that came to nothing") {
  Scene scene;
  scene.fixture.insert({.id = "a"});
  scene.fixture.insert({.id = "b"});
  scene.run(
      "CREATE FUNCTION {0}.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
      "INSERT INTO {0}.outbox_relay_rows (outbox, row_key, outcome_unknown) "
      "SELECT NEW.outbox, NEW.row_key, true FROM {0}.outbox_messages "
      "WHERE sequence::text = NEW.row_key AND id = 'a' ON CONFLICT DO NOTHING; RETURN NEW; END $$");
  scene.run(
      "CREATE TRIGGER note BEFORE INSERT ON {0}.outbox_relay_leases FOR EACH ROW "
      "EXECUTE FUNCTION {0}.note()");
  const Turn leased = done(scene.relay.turn());
  REQUIRE(ids_of(leased) == Ids{"b"});
  scene.fixture.refuse_changes("b");
  const Turn settled = done(scene.relay.turn({delivered(leased.leased[0])}));
  CHECK(settled.isolated == 1);
  CHECK(ids_of(settled) == Ids{"a"});
}

}  // namespace outbox::conformance
