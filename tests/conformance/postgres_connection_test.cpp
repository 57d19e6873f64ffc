// Statements that travel together.
#include <fmt/format.h>

#include "tests/conformance/postgres_fixture.h"
#include "tests/conformance/store_cases.h"

namespace outbox::conformance {
namespace {

using postgres::Ahead;
using postgres::Query;
using postgres::Rows;
using postgres::Transaction;

struct Scene {
  PostgresFixture fixture;
  postgres::Connection connection{postgres::connection_settings(fixture.settings(), "test")};
  Query note{connection, fmt::format("INSERT INTO {}.outbox_relay_audit (outbox, at, action) "
                                     "VALUES ($1, clock_timestamp(), 'test')",
                                     fixture.schema())};
  Query quotient{connection, "SELECT 12 / $1"};
  Query sum{connection, "SELECT 12 + $1"};

  std::int64_t notes() {
    Rows rows =
        fixture.run(fmt::format("SELECT count(*) FROM {}.outbox_relay_audit", fixture.schema()));
    rows.next();
    return rows.integer(0);
  }
};

std::int64_t number(Rows rows) {
  REQUIRE(rows.next());
  return rows.integer(0);
}

}  // namespace

TEST_CASE("each statement that was sent ahead has its own answer") {
  Scene scene;
  REQUIRE(scene.connection.prepares());
  for (const bool prepared : {false, true}) {
    CAPTURE(prepared);
    Transaction transaction(scene.connection, Transaction::Kind::write);
    Ahead first = scene.quotient.send(3);
    Ahead second = scene.sum.send(3);
    Ahead third = scene.quotient.send(4);
    CHECK(number(scene.sum.rows(0)) == 12);
    Ahead fourth = scene.sum.send(4);
    CHECK(number(second.rows()) == 15);
    CHECK(number(fourth.rows()) == 16);
    CHECK(number(third.rows()) == 3);
    CHECK(number(first.rows()) == 4);
    transaction.commit();
  }
}

TEST_CASE("a statement that was sent ahead and fails is not committed past") {
  Scene scene;
  for (int time = 0; time < 2; ++time) {
    CAPTURE(time);
    {
      Transaction transaction(scene.connection, Transaction::Kind::write);
      scene.note.run("before");
      scene.quotient.send(0);
      CHECK_THROWS_AS(transaction.commit(), postgres::ServerError);
    }
    {
      Transaction transaction(scene.connection, Transaction::Kind::write);
      scene.quotient.send(0);
      CHECK_THROWS_AS(scene.note.run("behind"), postgres::ServerError);
    }
    CHECK(scene.notes() == 0);
  }
  Transaction transaction(scene.connection, Transaction::Kind::write);
  scene.note.run("alone");
  transaction.commit();
  CHECK(scene.notes() == 1);
}

TEST_CASE("an answer is had before that of a statement that fails behind it") {
  Scene scene;
  for (int time = 0; time < 2; ++time) {
    CAPTURE(time);
    const Transaction transaction(scene.connection, Transaction::Kind::write);
    Ahead good = scene.sum.send(1);
    Ahead bad = scene.quotient.send(0);
    Ahead late = scene.sum.send(2);
    CHECK(number(good.rows()) == 13);
    CHECK_THROWS_AS(late.rows(), postgres::ServerError);
    CHECK(scene.connection.usable());
  }
  Transaction transaction(scene.connection, Transaction::Kind::write);
  CHECK(number(scene.sum.rows(1)) == 13);
  transaction.commit();
}

TEST_CASE("a commit that was sent ends the transaction when it has come through") {
  Scene scene;
  {
    Transaction transaction(scene.connection, Transaction::Kind::write);
    Ahead first = scene.sum.send(1);
    scene.note.send("in time");
    scene.connection.send_commit();
    CHECK(number(first.rows()) == 13);
    transaction.commit();
  }
  CHECK(scene.notes() == 1);
  {
    Transaction transaction(scene.connection, Transaction::Kind::write);
    scene.note.send("undone");
    scene.quotient.send(0);
    scene.connection.send_commit();
    CHECK_THROWS_AS(transaction.commit(), postgres::ServerError);
  }
  CHECK(scene.notes() == 1);
  CHECK(!scene.connection.in_transaction());
}

TEST_CASE("what was sent ahead is undone when nothing follows") {
  Scene scene;
  {
    const Transaction transaction(scene.connection, Transaction::Kind::write);
    scene.note.send("never");
  }
  CHECK(scene.notes() == 0);
  CHECK(!scene.connection.in_transaction());
  CHECK(scene.connection.usable());
}

}  // namespace outbox::conformance
