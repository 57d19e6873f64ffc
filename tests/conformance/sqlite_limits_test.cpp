// Rows too large, disks too full, tables too long.
#include <doctest/doctest.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "storage/sqlite/dialect.h"
#include "storage/sqlite/schema.h"
#include "tests/conformance/sqlite_fixture.h"

namespace outbox::conformance {
namespace {

using namespace std::chrono_literals;
using Ids = std::vector<std::string>;

// Largest resident size since the last call of reset_peak().
std::int64_t peak_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmHWM:", 0) == 0) return std::stoll(line.substr(6));
  }
  return -1;
}

void reset_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

// In another process, whose memory does not count.
void insert_elsewhere(SqliteFixture& fixture, const std::string& sql) {
  fixture.close_application();
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      SQLite::Database(fixture.path(), SQLite::OPEN_READWRITE, 5000).exec(sql);
      ::_exit(0);
    } catch (const std::exception&) {
      ::_exit(1);
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  REQUIRE(status == 0);
}

TEST_CASE("a row of 300 MB is never loaded, whatever becomes of it") {
  for (const char* value : {"zeroblob(300000000)", "CAST(zeroblob(300000000) AS TEXT)"}) {
    CAPTURE(value);
    SqliteFixture fixture;
    insert_elsewhere(fixture, std::string("INSERT INTO outbox_messages (id, event_type, payload) "
                                          "VALUES ('huge', 't', ") +
                                  value + "), ('small', 't', 'p')");
    reset_peak();
    const std::int64_t before = peak_kib();
    Client relay(fixture);
    const Turn turn = committed(relay.turn());
    REQUIRE(ids_of(turn) == Ids{"huge", "small"});
    CHECK(turn.leased[0].payload.empty());
    CHECK(turn.leased[0].payload_size == 300'000'000);
    CHECK(turn.leased[1].payload == "p");
    committed(relay.settle({dead(turn.leased[0], DeadReason::oversized)}));
    const auto desk = fixture.open_desk();
    CHECK(desk->backlog().value.dead_lettered == 1);
    CHECK(desk->dead_letters({}).value.at(0).reason == "oversized");
    CHECK(desk->redrive({}, "try again", {}).value == 1);
    fixture.advance(2s);
    const Turn again = committed(relay.turn());
    REQUIRE(ids_of(again) == Ids{"huge"});
    CHECK(again.leased[0].generation == 1);
    committed(relay.settle({retry(again.leased[0], 1s)}));
    fixture.advance(2s);
    const Turn third = committed(relay.turn());
    REQUIRE(ids_of(third) == Ids{"huge"});
    CHECK(third.leased[0].history.retry_count == 1);
    committed(relay.settle({delivered(third.leased[0])}));
    fixture.advance(2s);
    CHECK(committed(relay.turn()).leased.empty());
    CHECK(peak_kib() - before < 32 * 1024);
  }
}

TEST_CASE("the state of a row too large to be rewritten is kept beside it") {
  SqliteFixture fixture;
  fixture.insert({.id = "large", .payload = std::string(2u << 20, 'x')});
  Client relay(fixture);
  const Turn turn = committed(relay.turn());
  REQUIRE(turn.leased.size() == 1);
  CHECK(turn.leased[0].payload.size() == 2u << 20);
  committed(relay.settle({retry(turn.leased[0], 5s)}));
  CHECK(fixture.read("large").status == "Pending");
  const auto desk = fixture.open_desk();
  CHECK(desk->backlog().value.failed == 1);
  CHECK(desk->backlog().value.pending == 0);
  CHECK(committed(relay.turn()).leased.empty());
  fixture.advance(6s);
  const Turn again = committed(relay.turn());
  REQUIRE(again.leased.size() == 1);
  CHECK(again.leased[0].history.retry_count == 1);
  CHECK(desk->backlog().value.leased == 1);
  committed(relay.settle({delivered(again.leased[0])}));
  CHECK(desk->backlog().value.failed == 0);
  CHECK(committed(relay.settle({delivered(again.leased[0])})).fenced == 1);
  fixture.advance(2s);
  CHECK(committed(relay.turn()).leased.empty());
}

TEST_CASE("a row is not rewritten either if another column than the payload makes it large") {
  SqliteFixture fixture;
  fixture.insert({.id = "large"});
  fixture.insert({.id = "small"});
  // Not one of the relay's own columns.
  fixture.application().exec("ALTER TABLE outbox_messages ADD COLUMN document TEXT");
  insert_elsewhere(fixture,
                   "UPDATE outbox_messages SET document = printf('%.*c', 50000000, 'x') "
                   "WHERE id = 'large'");
  Client relay(fixture);
  const Turn turn = committed(relay.turn());
  REQUIRE(ids_of(turn) == Ids{"large", "small"});
  reset_peak();
  const std::int64_t before = peak_kib();
  const Turn settled =
      committed(relay.settle({delivered(turn.leased[0]), delivered(turn.leased[1])}));
  CHECK(settled.isolated == 0);
  CHECK(fixture.read("large").status == "Pending");
  CHECK(fixture.read("small").status == "Processed");
  CHECK(fixture.number("SELECT count(*) FROM outbox_relay_rows WHERE state = 'Processed'") == 1);
  fixture.advance(2s);
  CHECK(committed(relay.turn()).leased.empty());
  CHECK(peak_kib() - before < 20'000);
}

TEST_CASE("a value too large in another column is a defect, not a load") {
  SqliteFixture fixture;
  insert_elsewhere(fixture,
                   "INSERT INTO outbox_messages (id, event_type, headers, payload) "
                   "VALUES ('bad', 't', hex(zeroblob(20000000)), 'p'), ('good', 't', NULL, 'p')");
  Client relay(fixture);
  const Turn turn = committed(relay.turn());
  REQUIRE(turn.leased.size() == 2);
  CHECK(turn.leased[0].defect.has_value());
  CHECK(turn.leased[1].id == "good");
  CHECK_FALSE(turn.leased[1].defect.has_value());
}

Ids payloads_of(const Turn& turn) {
  Ids result;
  for (const Message& message : turn.leased) result.push_back(message.payload);
  return result;
}

TEST_CASE("rows deleted after they were leased are left out, wherever they stood") {
  for (const auto& [gone, rest] :
       {std::pair<std::string, Ids>{"a", {"b", "c"}}, {"b", {"a", "c"}}, {"c", {"a", "b"}}}) {
    CAPTURE(gone);
    SqliteFixture fixture;
    for (const char* id : {"a", "b", "c"}) fixture.insert({.id = id, .payload = id});
    Client relay(fixture);
    REQUIRE(committed(relay.turn()).leased.size() == 3);
    fixture.remove(gone);
    // Asked again, as after a connection that broke at the commit, the rows are read again.
    CHECK(payloads_of(committed(relay.repeat())) == rest);
    committed(relay.settle({}));
    CHECK(fixture.number("SELECT count(*) FROM outbox_relay_leases") == 2);
  }
}

TEST_CASE("leased rows keep their contents whatever lies between them") {
  for (const char* between : {"'Processed', 'no'", "'DeadLettered', zeroblob(50000000)"}) {
    CAPTURE(between);
    SqliteFixture fixture;
    fixture.insert({.id = "a", .payload = "first"});
    fixture.application().exec(
        std::string("INSERT INTO outbox_messages (id, event_type, status, payload) "
                    "VALUES ('b', 't', ") +
        between + ")");
    fixture.insert({.id = "c", .payload = "last"});
    fixture.application().exec("UPDATE outbox_messages SET sequence = 900 WHERE sequence = 3");
    fixture.insert({.id = "d", .payload = "far"});
    Client relay(fixture);
    CHECK(payloads_of(committed(relay.lease(2))) == Ids{"first", "last"});
    CHECK(payloads_of(committed(relay.turn())) == Ids{"far"});
  }
  SqliteFixture fixture;
  for (const char* id : {"a", "b", "c"}) fixture.insert({.id = id, .payload = id});
  fixture.application().exec("UPDATE outbox_messages SET status = 'Processed' WHERE id = 'b'");
  Client relay(fixture);
  CHECK(payloads_of(committed(relay.turn())) == Ids{"a", "c"});
}

TEST_CASE("a text payload is as good as a blob, byte by byte") {
  SqliteFixture fixture;
  fixture.application().exec(
      "INSERT INTO outbox_messages (id, event_type, payload) "
      "VALUES ('text', 't', 'gr\xc3\xbc\xc3\x9f'), ('number', 't', 42)");
  Client relay(fixture);
  const Turn turn = committed(relay.turn());
  REQUIRE(turn.leased.size() == 2);
  CHECK(turn.leased[0].payload == "gr\xc3\xbc\xc3\x9f");
  CHECK(turn.leased[0].payload_size == 6);
  CHECK(turn.leased[1].payload == "42");
}

TEST_CASE("another writer makes the relay wait, and lose nothing") {
  SqliteFixture fixture;
  fixture.insert({.id = "a"});
  Client relay(fixture);
  const Turn leased = committed(relay.turn());
  fixture.application().exec("BEGIN IMMEDIATE");
  for (int i = 0; i < 3; ++i) {
    const Turn busy = i == 0 ? relay.turn({delivered(leased.leased.at(0))})
                             : relay.repeat({delivered(leased.leased.at(0))});
    CHECK(busy.status == TurnStatus::busy);
    CHECK(busy.rest >= 1ms);
    CHECK(busy.rest <= 3ms);
  }
  fixture.application().exec("COMMIT");
  CHECK(committed(relay.repeat({delivered(leased.leased.at(0))})).fenced == 0);
  CHECK(fixture.read("a").status == "Processed");
}

TEST_CASE("the relay rests after it wrote beside others, and only then") {
  SqliteFixture fixture;
  fixture.insert({.id = "a"});
  Client relay(fixture);
  committed(relay.turn());
  fixture.insert({.id = "b"});
  CHECK(committed(relay.turn()).rest > Duration{0});
  fixture.advance(2s);
  CHECK(committed(relay.renew()).rest == Duration{0});
}

TEST_CASE("more verdicts than one transaction should take are all written") {
  SqliteFixture fixture;
  fixture.application().exec(
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) "
      "INSERT INTO outbox_messages (id, event_type, payload) SELECT 'e' || i, 't', 'p' FROM n");
  Client relay(fixture);
  relay.request.limit = 5000;
  std::vector<Settlement> verdicts;
  for (int i = 0; i < 500 && verdicts.size() < 3000; ++i) {
    for (const Message& message : committed(relay.turn()).leased) {
      verdicts.push_back(delivered(message));
    }
  }
  REQUIRE(verdicts.size() == 3000);
  CHECK(committed(relay.settle(verdicts)).fenced == 0);
  CHECK(fixture.number("SELECT count(*) FROM outbox_messages WHERE status = 'Processed'") == 3000);
  CHECK(fixture.number("SELECT count(*) FROM outbox_relay_leases") == 0);
}

TEST_CASE("a full disk fails the turn; once there is space it succeeds as it was") {
  SqliteFixture fixture;
  const auto mounted = fixture.folder() / "small";
  std::filesystem::create_directory(mounted);
  if (::mount("none", mounted.c_str(), "tmpfs", 0, "size=2m") != 0) {
    MESSAGE("skipped: no right to mount a small file system");
    return;
  }
  {
    StoreSettings settings = fixture.settings();
    const std::string path = (mounted / "app.db").string();
    settings.url = "sqlite://" + path;
    sqlite::apply_schema(path, sqlite::mapping_of(settings));
    SQLite::Database application(path, SQLite::OPEN_READWRITE, 5000);
    application.exec(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200) "
        "INSERT INTO outbox_messages (id, event_type, payload) "
        "SELECT 'e' || i, 't', zeroblob(1000) FROM n");
    sqlite::SqliteStore store(settings, fixture.clocks(), fixture.bell());
    TurnRequest request;
    request.number = 1;
    request.lease.limit = 150;
    request.lease.retry_limit = 150;
    request.lease.bytes = 1u << 20;
    request.lease.payload_max = 1u << 20;
    request.lease.term = 30s;
    const Turn leased = committed(store.turn(request));
    REQUIRE(leased.leased.size() == 150);
    std::vector<Settlement> verdicts;
    for (const Message& message : leased.leased) verdicts.push_back(delivered(message));

    const std::string ballast = (mounted / "ballast").string();
    {
      std::ofstream file(ballast);
      const std::string page(4096, 'x');
      while (file.write(page.data(), 4096) && file.flush()) {
      }
    }
    request.number = 2;
    request.settlements = verdicts;
    const Turn failed = store.turn(request);
    CHECK(failed.status == TurnStatus::failed);
    CHECK(failed.error.find("space") != std::string::npos);
    CHECK(failed.leased.empty());
    CHECK(application
              .execAndGet("SELECT count(*) FROM outbox_messages "
                          "WHERE status = 'Processed'")
              .getInt() == 0);
    std::filesystem::remove(ballast);
    const Turn repeated = committed(store.turn(request));
    CHECK(repeated.fenced == 0);
    CHECK(repeated.leased.size() == 50);
    CHECK(application
              .execAndGet("SELECT count(*) FROM outbox_messages "
                          "WHERE status = 'Processed'")
              .getInt() == 150);
  }
  ::umount(mounted.c_str());
}

TEST_CASE("refusals of every kind keep to their row") {
  const std::vector<std::string> kinds{"ABORT", "FAIL", "ROLLBACK"};
  for (const std::string& kind : kinds) {
    CAPTURE(kind);
    SqliteFixture fixture;
    for (const auto* id : {"a", "b", "c"}) fixture.insert({.id = id});
    fixture.application().exec("CREATE TABLE notes (id TEXT)");
    fixture.application().exec(
        "CREATE TRIGGER refuse AFTER UPDATE ON outbox_messages WHEN old.id = 'b' BEGIN "
        "INSERT INTO notes VALUES (old.id); SELECT raise(" +
        kind + ", 'no'); END");
    Client relay(fixture);
    const Turn turn = committed(relay.turn());
    const Turn settled =
        committed(relay.settle({delivered(turn.leased.at(0)), delivered(turn.leased.at(1)),
                                delivered(turn.leased.at(2))}));
    CHECK(settled.isolated == 1);
    CHECK(fixture.read("a").status == "Processed");
    CHECK(fixture.read("b").status == "Pending");
    CHECK(fixture.read("c").status == "Processed");
    CHECK(fixture.number("SELECT count(*) FROM notes") == 0);
    fixture.advance(2s);
    CHECK(committed(relay.turn()).leased.empty());
  }
}

TEST_CASE("a row that no longer refuses gets its state back") {
  SqliteFixture fixture;
  fixture.insert({.id = "a"});
  fixture.refuse_changes("a");
  Client relay(fixture);
  committed(relay.settle({retry(committed(relay.turn()).leased.at(0), 1s)}));
  fixture.application().exec("DROP TRIGGER refuse_UPDATE_a");
  fixture.advance(2s);
  const Turn again = committed(relay.turn());
  REQUIRE(again.leased.size() == 1);
  CHECK(committed(relay.settle({retry(again.leased[0], 1h)})).isolated == 0);
  CHECK(fixture.read("a").status == "Failed");
  CHECK(fixture.read("a").retry_count == 2);
  CHECK(fixture.number("SELECT count(*) FROM outbox_relay_rows WHERE state IS NOT NULL") == 0);
}

TEST_CASE("a hundred thousand rows that can't move hold up nobody") {
  SqliteFixture fixture;
  fixture.insert({.id = "head", .ordering_key = "blocked"});
  fixture.application().exec(
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000) "
      "INSERT INTO outbox_messages (id, event_type, ordering_key, payload) "
      "SELECT 'e' || i, 't', 'blocked', 'p' FROM n");
  Client other(fixture);
  other.request.ordering = Ordering::key;
  REQUIRE(ids_of(committed(other.lease(1))) == Ids{"head"});

  fixture.insert({.id = "free1", .ordering_key = "free"});
  Client relay(fixture);
  relay.request.ordering = Ordering::key;
  int turns = 0;
  Turn turn;
  do {
    turn = committed(relay.turn());
    ++turns;
    CHECK((turn.more || !turn.leased.empty()));
  } while (turn.leased.empty() && turns < 500);
  CHECK(ids_of(turn) == Ids{"free1"});
  CHECK(turns <= 102);
  committed(relay.settle({delivered(turn.leased.at(0))}));
  // From here on the blocked rows are not read again for each new one.
  for (int i = 2; i < 12; ++i) {
    const std::string id = "free" + std::to_string(i);
    fixture.insert({.id = id, .ordering_key = "free"});
    const Turn found = committed(relay.turn());
    REQUIRE(ids_of(found) == Ids{id});
    CHECK_FALSE(committed(relay.turn({delivered(found.leased.at(0))})).more);
  }
}

TEST_CASE("rows for the far future are passed, and found when their time has come") {
  SqliteFixture fixture;
  for (int i = 0; i < 300; ++i) {
    fixture.insert({.id = "far" + std::to_string(i), .not_before = 24h});
  }
  Client relay(fixture);
  for (int i = 0; i < 20; ++i) {
    const std::string id = "now" + std::to_string(i);
    fixture.insert({.id = id});
    CHECK(ids_of(committed(relay.turn())) == Ids{id});
  }
  fixture.advance(24h);
  relay.request.limit = 1000;
  CHECK(committed(relay.turn()).leased.size() == 300);
}

TEST_CASE("no statement of the relay reads a table or an index from end to end") {
  SqliteFixture fixture;
  const sqlite::Clocks clocks = fixture.clocks();
  sqlite::Session session(fixture.path(), sqlite::mapping_of(fixture.settings()), true, "", clocks);
  SQLite::Database& database = session.connection.database();
  std::vector<std::string> statements;
  for (sqlite3_stmt* one = sqlite3_next_stmt(database.getHandle(), nullptr); one != nullptr;
       one = sqlite3_next_stmt(database.getHandle(), one)) {
    statements.push_back(sqlite3_sql(one));
  }
  REQUIRE(statements.size() > 30);
  for (const std::string& sql : statements) {
    CAPTURE(sql);
    SQLite::Statement plan(database, "EXPLAIN QUERY PLAN " + sql);
    while (plan.executeStep()) {
      const std::string step = plan.getColumn(3).getString();
      CAPTURE(step);
      const bool seeks = step.rfind("SEARCH ", 0) == 0 || step.ends_with(" CONSTANT ROW") ||
                         step.ends_with(" CONSTANT ROWS") ||
                         step.rfind("SCALAR SUBQUERY ", 0) == 0;  // its own steps follow
      CHECK(seeks);
      // A side table's rows are found by their whole key, not by the outbox alone.
      const bool side =
          step.rfind("SEARCH l ", 0) == 0 || step.rfind("SEARCH r USING PRIMARY", 0) == 0;
      if (side) CHECK(step.find("row_key=?") != std::string::npos);
    }
  }
}

TEST_CASE("a key that its dead letters don't block is free however many there are") {
  SqliteFixture fixture;
  fixture.application().exec(
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) "
      "INSERT INTO outbox_messages (id, event_type, ordering_key, status, payload) "
      "SELECT 'e' || i, 't', 'k', 'DeadLettered', 'p' FROM n");
  fixture.insert({.id = "next", .ordering_key = "k"});
  Client relay(fixture);
  relay.request.ordering = Ordering::key;
  CHECK(committed(relay.turn()).leased.empty());
  relay.request.dead_blocks_key = false;
  fixture.advance(2s);
  CHECK(ids_of(committed(relay.turn())) == Ids{"next"});
}

}  // namespace
}  // namespace outbox::conformance
