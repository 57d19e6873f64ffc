// Rows that the application has locked: nothing but themselves waits for them.
#include <fmt/format.h>

#include <future>

#include "tests/conformance/postgres_fixture.h"
#include "tests/conformance/store_cases.h"

namespace outbox::conformance {
namespace {

// A transaction of the application that stays open.
class Holder {
 public:
  explicit Holder(PostgresFixture& fixture)
      : fixture_(fixture), connection_(postgres::connection_settings(fixture.settings(), "app")) {
    connection_.begin(false);
  }
  void run(const std::string& sql) {
    connection_.begin_work();
    postgres::ask(connection_, fmt::format(fmt::runtime(sql), fixture_.schema()));
  }
  void lock(const std::string& id) {
    run("SELECT 1 FROM {0}.outbox_messages WHERE id = '" + id + "' FOR UPDATE");
  }
  void commit() { connection_.commit(); }

 private:
  PostgresFixture& fixture_;
  postgres::Connection connection_;
};

struct Scene {
  PostgresFixture fixture;
  Client relay{fixture};

  Turn lease(const Ids& ids) {
    for (const auto& id : ids) fixture.insert({.id = id});
    return done(relay.turn());
  }
  std::string beside(const std::string& id) {
    postgres::Rows rows = fixture.run(
        fmt::format("SELECT coalesce(r.state, '') FROM {0}.outbox_relay_rows AS r JOIN "
                    "{0}.outbox_messages AS o ON r.row_key = o.sequence::text WHERE o.id = $1",
                    fixture.schema()),
        id);
    return rows.next() ? rows.text(0) : "";
  }
  MessageState shown(const std::string& id) {
    return fixture.open_desk()->message(id, 0).value.at(0).summary.state;
  }
  std::int64_t leases() {
    postgres::Rows rows =
        fixture.run(fmt::format("SELECT count(*) FROM {}.outbox_relay_leases", fixture.schema()));
    rows.next();
    return rows.integer(0);
  }
};

std::vector<Settlement> all_delivered(const Turn& turn) {
  std::vector<Settlement> verdicts;
  for (const Message& message : turn.leased) verdicts.push_back(delivered(message));
  return verdicts;
}

TEST_CASE("a row that the application has locked costs only that row") {
  Scene scene;
  const Turn leased = scene.lease({"a", "b", "c"});
  Holder application(scene.fixture);
  application.lock("b");
  const Turn settled = done(scene.relay.turn(all_delivered(leased)));
  CHECK(settled.fenced == 0);
  CHECK(settled.isolated == 0);
  CHECK(scene.fixture.read("a").status == "Processed");
  CHECK(scene.fixture.read("b").status == "Pending");
  CHECK(scene.fixture.read("c").status == "Processed");
  // It is on record all the same, for everybody.
  CHECK(scene.shown("b") == MessageState::processed);
  CHECK(scene.leases() == 0);
  scene.relay.die();
  Client other(scene.fixture);
  scene.fixture.advance(31s);
  CHECK(done(other.turn()).leased.empty());
}

TEST_CASE("what was locked is written to the row once it is free") {
  Scene scene;
  const Turn leased = scene.lease({"a", "b"});
  Holder application(scene.fixture);
  application.lock("a");
  application.lock("b");
  done(scene.relay.turn(
      {delivered(leased.leased.at(0)), dead(leased.leased.at(1), DeadReason::permanent)}));
  scene.fixture.advance(2s);
  CHECK(done(scene.relay.turn()).leased.empty());  // still locked: nobody waits
  CHECK(scene.fixture.read("a").status == "Pending");
  CHECK(scene.shown("b") == MessageState::dead_lettered);
  application.commit();
  scene.fixture.advance(2s);
  CHECK(done(scene.relay.turn()).leased.empty());
  CHECK(scene.fixture.read("a").status == "Processed");
  CHECK(scene.beside("a").empty());
  const RowState dead_row = scene.fixture.read("b");
  CHECK(dead_row.status == "DeadLettered");
  CHECK(dead_row.retry_count == 1);
  CHECK(dead_row.last_error == "refused for good");
  CHECK(scene.beside("b").empty());
  // Told once.
  CHECK(scene.fixture.open_desk()->trail("b").value.size() == 1);
  // And that was all.
  const std::int64_t before = scene.fixture.version();
  scene.fixture.advance(2s);
  done(scene.relay.turn());
  CHECK(scene.fixture.version() == before);
}

TEST_CASE("a relay that ends writes what has become free") {
  Scene scene;
  const Turn leased = scene.lease({"a"});
  Holder application(scene.fixture);
  application.lock("a");
  done(scene.relay.turn(all_delivered(leased)));
  application.commit();
  scene.relay.store().retire();
  CHECK(scene.fixture.read("a").status == "Processed");
}

TEST_CASE("a failed row that was locked is tried again when it is due and free") {
  Scene scene;
  const Turn leased = scene.lease({"a"});
  Holder application(scene.fixture);
  application.lock("a");
  done(scene.relay.settle({retry(leased.leased.at(0), 5s)}));
  scene.fixture.advance(3s);
  CHECK(done(scene.relay.turn()).leased.empty());
  application.commit();
  scene.fixture.advance(3s);
  const Turn again = done(scene.relay.turn());
  REQUIRE(ids_of(again) == Ids{"a"});
  CHECK(again.leased[0].history.retry_count == 1);
  done(scene.relay.settle({delivered(again.leased.at(0))}));
  CHECK(scene.fixture.read("a").status == "Processed");
  CHECK(scene.fixture.read("a").retry_count == 1);
}

TEST_CASE("a row that the application deletes or decides while it is settled stays so") {
  Scene scene;
  const Turn leased = scene.lease({"gone", "decided"});
  Holder application(scene.fixture);
  application.run("DELETE FROM {0}.outbox_messages WHERE id = 'gone'");
  application.run(
      "UPDATE {0}.outbox_messages SET status = 'Processed', last_error = 'by hand' "
      "WHERE id = 'decided'");
  done(scene.relay.turn(all_delivered(leased)));
  application.commit();
  scene.fixture.advance(2s);
  CHECK(done(scene.relay.turn()).leased.empty());
  CHECK(scene.fixture.read("decided").last_error == "by hand");
}

TEST_CASE("a confirmation that comes too late for a locked row is recorded once it is free") {
  Scene scene;
  const Turn leased = scene.lease({"a"});
  scene.fixture.advance(31s);
  Client other(scene.fixture);
  REQUIRE(ids_of(done(other.turn())) == Ids{"a"});
  Holder application(scene.fixture);
  application.lock("a");
  const Turn settled = done(scene.relay.turn(all_delivered(leased)));
  CHECK(settled.fenced == 0);
  CHECK(scene.fixture.read("a").status == "Pending");
  application.commit();
  scene.fixture.advance(2s);
  done(scene.relay.turn());
  CHECK(scene.fixture.read("a").status == "Processed");
  CHECK(scene.leases() == 0);
}

TEST_CASE("a confirmation that was put off and proves to be too late is counted") {
  Scene scene;
  const Turn leased = scene.lease({"a"});
  scene.fixture.advance(31s);
  Client other(scene.fixture);
  const Turn taken = done(other.turn());
  REQUIRE(ids_of(taken) == Ids{"a"});
  Holder application(scene.fixture);
  application.lock("a");
  CHECK(done(scene.relay.turn(all_delivered(leased))).fenced == 0);
  application.commit();
  done(other.settle({dead(taken.leased.at(0), DeadReason::permanent)}));
  scene.fixture.advance(2s);
  CHECK(done(scene.relay.turn()).fenced == 1);
  CHECK(scene.fixture.read("a").status == "DeadLettered");
}

// The server ends one of two that wait for each other after a second: never the application.
TEST_CASE("the application's transaction does not fail for the relay's sake") {
  Scene scene;
  const Turn leased = scene.lease({"a", "b"});
  Holder application(scene.fixture);
  application.lock("b");
  auto settling =
      std::async(std::launch::async, [&] { return scene.relay.settle(all_delivered(leased)); });
  settling.wait_for(2s);
  CHECK_NOTHROW(application.lock("a"));
  CHECK_NOTHROW(application.commit());
  CHECK(done(settling.get()).fenced == 0);
  CHECK(scene.shown("a") == MessageState::processed);
  CHECK(scene.shown("b") == MessageState::processed);
}

TEST_CASE("a locked row that can't be leased is not asked for all the time") {
  Scene scene;
  scene.lease({});
  scene.fixture.insert({.id = "a"});
  scene.fixture.insert({.id = "b"});
  Holder application(scene.fixture);
  application.lock("a");
  CHECK(ids_of(done(scene.relay.turn())) == Ids{"b"});
  const std::int64_t before = scene.fixture.version();
  const Turn next = done(scene.relay.turn());
  CHECK(next.leased.empty());
  CHECK_FALSE(next.more);
  CHECK(scene.fixture.version() == before);
  REQUIRE(next.next_due.has_value());
  CHECK(*next.next_due <= 50ms);
  application.commit();
  scene.fixture.advance(*next.next_due);
  CHECK(ids_of(done(scene.relay.turn())) == Ids{"a"});
}

TEST_CASE("a row that another table's new row refers to is leased and settled all the same") {
  Scene scene;
  scene.fixture.run(
      fmt::format("CREATE TABLE {0}.notes (message text REFERENCES {0}.outbox_messages (id))",
                  scene.fixture.schema()));
  scene.fixture.insert({.id = "a"});
  Holder application(scene.fixture);
  application.run("INSERT INTO {0}.notes VALUES ('a')");
  const Turn leased = done(scene.relay.turn());
  REQUIRE(ids_of(leased) == Ids{"a"});
  done(scene.relay.settle(all_delivered(leased)));
  CHECK(scene.fixture.read("a").status == "Processed");
}

}  // namespace
}  // namespace outbox::conformance
