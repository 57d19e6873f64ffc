// What the SQLite store promises beyond the suite: it stops rather than guesses.
#include <doctest/doctest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>

#include "storage/sqlite/dialect.h"
#include "storage/sqlite/schema.h"
#include "tests/conformance/sqlite_fixture.h"

namespace outbox {
void add_sqlite_store(Backends& backends);
}

namespace outbox::conformance {
namespace {

using namespace std::chrono_literals;
using Ids = std::vector<std::string>;

bool mentions(const std::string& text, const std::string& word) {
  return text.find(word) != std::string::npos;
}

Turn unusable(Turn turn) {
  REQUIRE_MESSAGE(turn.status == TurnStatus::unusable, turn.error);
  REQUIRE_FALSE(turn.error.empty());
  REQUIRE(turn.leased.empty());
  return turn;
}

void remove_database(const SqliteFixture& fixture) {
  for (const char* suffix : {"", "-wal", "-shm"}) {
    std::filesystem::remove(fixture.path() + suffix);
  }
}

TEST_CASE("a missing database is waited for, and never created") {
  SqliteFixture fixture;
  remove_database(fixture);
  Client relay(fixture);
  for (int i = 0; i < 3; ++i) {
    CHECK(mentions(unusable(relay.turn()).error, fixture.path()));
    fixture.advance(1s);
  }
  CHECK_FALSE(std::filesystem::exists(fixture.path()));
  sqlite::apply_schema(fixture.path(), sqlite::mapping_of(fixture.settings()));
  fixture.insert({.id = "a"});
  CHECK(ids_of(committed(relay.turn())) == Ids{"a"});
}

TEST_CASE("a missing table is waited for, and the relay's tables come with it") {
  SqliteFixture fixture;
  remove_database(fixture);
  SQLite::Database(fixture.path(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE)
      .exec("PRAGMA journal_mode=WAL; CREATE TABLE users (name TEXT)");
  Client relay(fixture);
  CHECK(mentions(unusable(relay.turn()).error, "outbox_messages"));
  CHECK(fixture.number("SELECT count(*) FROM sqlite_schema WHERE name LIKE 'outbox%'") == 0);
  fixture.application().exec(sqlite::outbox_ddl(sqlite::mapping_of(fixture.settings())));
  fixture.insert({.id = "a"});
  CHECK(ids_of(committed(relay.turn())) == Ids{"a"});
  CHECK(fixture.number("SELECT count(*) FROM outbox_relay_incarnations") == 1);
}

TEST_CASE("without the right to create its tables the relay names the command that does") {
  SqliteFixture fixture;
  remove_database(fixture);
  fixture.create_relay_tables = false;
  SQLite::Database(fixture.path(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE)
      .exec("PRAGMA journal_mode=WAL;" +
            sqlite::outbox_ddl(sqlite::mapping_of(fixture.settings())));
  Client relay(fixture);
  CHECK(mentions(unusable(relay.turn()).error, "outbox-relay init"));
  fixture.application().exec(sqlite::relay_ddl());
  CHECK(committed(relay.turn()).leased.empty());
}

TEST_CASE("a rollback journal is refused, with the statement that mends it") {
  SqliteFixture fixture;
  fixture.application().exec("PRAGMA journal_mode=DELETE");
  fixture.insert({.id = "a"});
  Client relay(fixture);
  CHECK(mentions(unusable(relay.turn()).error, "PRAGMA journal_mode=WAL"));
  fixture.application().exec("PRAGMA journal_mode=WAL");
  CHECK(ids_of(committed(relay.turn())) == Ids{"a"});
}

TEST_CASE("a table that lacks columns is refused, and they are named") {
  SqliteFixture fixture;
  fixture.application().exec("ALTER TABLE outbox_messages DROP COLUMN traceparent");
  fixture.application().exec("ALTER TABLE outbox_messages DROP COLUMN headers");
  Client relay(fixture);
  const std::string error = unusable(relay.turn()).error;
  CHECK(mentions(error, "headers"));
  CHECK(mentions(error, "traceparent"));
}

TEST_CASE("a schema that drifts stops the relay until it is mended; a harmless change does not") {
  SqliteFixture fixture;
  fixture.insert({.id = "a"});
  fixture.insert({.id = "b"});
  fixture.insert({.id = "c"});
  Client relay(fixture);
  const Turn first = committed(relay.lease(1));
  fixture.application().exec("ALTER TABLE outbox_messages ADD COLUMN tenant TEXT");
  const Turn second = committed(relay.lease(1));
  CHECK(ids_of(second) == Ids{"b"});
  fixture.application().exec("ALTER TABLE outbox_messages RENAME COLUMN headers TO header");
  CHECK(mentions(unusable(relay.turn({delivered(first.leased.at(0))})).error, "headers"));
  fixture.application().exec("ALTER TABLE outbox_messages RENAME COLUMN header TO headers");
  const Turn third = committed(relay.repeat({delivered(first.leased.at(0))}));
  CHECK(ids_of(third) == Ids{"c"});
  CHECK_FALSE(third.leases_lost);
  CHECK(fixture.read("a").status == "Processed");
}

TEST_CASE("a missing index makes the relay slower, not wrong") {
  SqliteFixture fixture;
  fixture.insert({.id = "a", .ordering_key = "k"});
  Client relay(fixture);
  relay.request.ordering = Ordering::key;
  const Turn first = committed(relay.turn());
  for (const char* index : {"pending", "failed", "dead", "open_key", "dead_key"}) {
    fixture.application().exec(std::string("DROP INDEX outbox_messages_") + index);
  }
  committed(relay.settle({retry(first.leased.at(0), 1s)}));
  fixture.advance(2s);
  const Turn again = committed(relay.turn());
  CHECK(ids_of(again) == Ids{"a"});
}

TEST_CASE("tables of a newer program are left alone") {
  SqliteFixture fixture;
  fixture.application().exec(
      "UPDATE outbox_relay_meta SET value = 99 WHERE outbox = '' AND name = 'schema_major'");
  fixture.insert({.id = "a"});
  Client relay(fixture);
  CHECK(mentions(unusable(relay.turn()).error, "99"));
}

TEST_CASE("a replaced database stops everything once; then the new one is the outbox") {
  SqliteFixture fixture;
  fixture.insert({.id = "a"});
  Client relay(fixture);
  const Turn leased = committed(relay.turn());
  fixture.close_application();
  remove_database(fixture);
  sqlite::apply_schema(fixture.path(), sqlite::mapping_of(fixture.settings()));
  fixture.insert({.id = "new"});
  const Turn after = unusable(relay.turn({delivered(leased.leased.at(0))}));
  CHECK(after.leases_lost);
  const Turn next = committed(relay.repeat({delivered(leased.leased.at(0))}));
  CHECK(ids_of(next) == Ids{"new"});
  CHECK_FALSE(next.leases_lost);
  // The old file's row 1 was confirmed; the new file's row 1 is another one.
  CHECK(next.fenced == 1);
  CHECK(fixture.read("new").status == "Pending");
}

TEST_CASE("a removed database stops the relay") {
  SqliteFixture fixture;
  fixture.insert({.id = "a"});
  Client relay(fixture);
  committed(relay.lease(0));
  fixture.close_application();
  remove_database(fixture);
  CHECK(unusable(relay.turn()).leases_lost);
  CHECK_FALSE(unusable(relay.turn()).leases_lost);
  CHECK_FALSE(std::filesystem::exists(fixture.path()));
}

TEST_CASE("a backup restored into the open file voids the leases") {
  SqliteFixture fixture;
  fixture.insert({.id = "a"});
  const std::string backup = fixture.path() + ".backup";
  fixture.application().exec("VACUUM INTO '" + backup + "'");
  Client relay(fixture);
  const Turn leased = committed(relay.turn());
  const LeaseId before = committed(relay.renew()).epoch;
  fixture.application().backup(backup.c_str(), SQLite::Database::Load);
  const Turn turn = committed(relay.turn({delivered(leased.leased.at(0))}));
  CHECK(turn.leases_lost);
  // The event is the same, and the broker has it: no need to send it again.
  CHECK(turn.fenced == 0);
  CHECK(turn.leased.empty());
  CHECK(fixture.read("a").status == "Processed");
  CHECK(turn.epoch > before);
}

// Runs `check` as an unprivileged user, for whom modes count. Its result is the exit code.
int as_nobody(const std::function<int()>& check) {
  const pid_t child = ::fork();
  if (child == 0) {
    const bool dropped =
        ::setresgid(65534, 65534, 65534) == 0 && ::setresuid(65534, 65534, 65534) == 0;
    ::_exit(dropped ? check() : 77);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_CASE("a database that becomes read-only stops the relay until it is writable again") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root can become another user");
    return;
  }
  SqliteFixture fixture;
  fixture.insert({.id = "a"});
  fixture.close_application();
  ::chmod(fixture.folder().c_str(), 0777);
  const uid_t nobody = 65534;
  for (const auto& file : std::filesystem::directory_iterator(fixture.folder())) {
    REQUIRE(::chown(file.path().c_str(), nobody, nobody) == 0);
  }
  const int result = as_nobody([&] {
    Client relay(fixture);
    if (relay.lease(0).status != TurnStatus::committed) return 1;
    ::chmod(fixture.path().c_str(), 0444);
    const Turn refused = relay.turn();
    if (refused.status != TurnStatus::unusable || !mentions(refused.error, "may not write"))
      return 2;
    if (relay.turn().status != TurnStatus::unusable) return 3;
    ::chmod(fixture.path().c_str(), 0644);
    return ids_of(relay.turn()) == Ids{"a"} ? 0 : 4;
  });
  CHECK(result == 0);
}

TEST_CASE("a file system without reliable locks is refused by name") {
  SqliteFixture fixture;
  const auto mounted = fixture.folder() / "ramfs";
  std::filesystem::create_directory(mounted);
  if (::mount("none", mounted.c_str(), "ramfs", 0, nullptr) != 0) {
    MESSAGE("skipped: no right to mount a file system");
    return;
  }
  const std::string path = (mounted / "app.db").string();
  SQLite::Database(path, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE)
      .exec("PRAGMA journal_mode=WAL;" +
            sqlite::complete_ddl(sqlite::mapping_of(fixture.settings())));
  StoreSettings settings = fixture.settings();
  settings.url = "sqlite://" + path;
  {
    sqlite::SqliteStore store(settings, fixture.clocks(), fixture.bell());
    const Turn turn =
        unusable(store.turn({.number = 1, .settlements = {}, .renew = false, .lease = {}}));
    CHECK(mentions(turn.error, "unsupported file system"));
  }
  ::umount(mounted.c_str());
}

TEST_CASE("init creates a file in WAL mode with the group's rights, and leaves what exists") {
  SqliteFixture fixture;
  Backends backends;
  add_sqlite_store(backends);
  const StoreBackend& backend = backends.stores.at("sqlite");
  StoreSettings settings = fixture.settings();
  const std::string path = (fixture.folder() / "fresh.db").string();
  settings.url = "sqlite://" + path;
  const mode_t before = ::umask(0007);
  CHECK(backend.apply_ddl(settings).empty());
  ::umask(before);
  struct stat info {};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0660);
  SQLite::Database database(path, SQLite::OPEN_READWRITE);
  CHECK(database.execAndGet("PRAGMA journal_mode").getString() == "wal");
  database.exec("INSERT INTO outbox_messages (id, event_type, payload) VALUES ('a', 't', 'p')");
  CHECK(backend.apply_ddl(settings).empty());
  CHECK(database.execAndGet("SELECT count(*) FROM outbox_messages").getInt() == 1);
  CHECK(database
            .execAndGet("SELECT occurred_on_utc GLOB '20*-*-*T*:*:*.*Z' "
                        "FROM outbox_messages")
            .getInt() == 1);
}

TEST_CASE("the printed DDL runs as it stands, and again") {
  Backends backends;
  add_sqlite_store(backends);
  StoreSettings settings;
  settings.table = "two\nlines";
  settings.url = "sqlite:app.db";
  CHECK_FALSE(backends.stores.at("sqlite").check(settings).empty());
  settings.table = "order outbox";
  CHECK(backends.stores.at("sqlite").check(settings).empty());
  const std::string ddl = backends.stores.at("sqlite").ddl(settings);
  SQLite::Database database(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  database.exec(ddl);
  database.exec(ddl);
  CHECK(database.tableExists("order outbox"));
  CHECK(database.tableExists("outbox_relay_attempts"));
}

TEST_CASE("two outboxes in one database do not meet") {
  SqliteFixture fixture;
  StoreSettings settings = fixture.settings();
  settings.table = "second_outbox";
  sqlite::apply_schema(fixture.path(), sqlite::mapping_of(settings));
  fixture.insert({.id = "a"});
  fixture.application().exec(
      "INSERT INTO second_outbox (id, event_type, payload) VALUES ('b', 't', 'p')");
  Client first(fixture);
  sqlite::SqliteStore second(settings, fixture.clocks(), fixture.bell());
  CHECK(ids_of(committed(first.turn())) == Ids{"a"});
  TurnRequest request;
  request.number = 1;
  request.lease = first.request;
  const Turn turn = committed(second.turn(request));
  CHECK(ids_of(turn) == Ids{"b"});
  CHECK(turn.taken_over == 0);
}

TEST_CASE("a table's name is found whatever its case, so that relays agree on it") {
  SqliteFixture fixture;
  fixture.insert({.id = "a"});
  Client first(fixture);
  CHECK(ids_of(committed(first.turn())) == Ids{"a"});
  StoreSettings settings = fixture.settings();
  settings.table = "Outbox_Messages";
  sqlite::SqliteStore second(settings, fixture.clocks(), fixture.bell());
  TurnRequest request;
  request.number = 1;
  request.lease = first.request;
  CHECK(committed(second.turn(request)).leased.empty());
}

}  // namespace
}  // namespace outbox::conformance
