// The bell: rung by commits of others, and by nothing else.
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "storage/sqlite/schema.h"
#include "storage/sqlite/wal_watcher.h"
#include "tests/conformance/sqlite_fixture.h"

namespace outbox::conformance {
namespace {

using namespace std::chrono_literals;

TEST_CASE("the bell rings when the application commits, not otherwise") {
  SqliteFixture fixture;
  fixture.insert({.id = "a"});
  CountingBell bell;
  const auto rings_beyond = [&](int count) {
    const auto deadline = std::chrono::steady_clock::now() + 10s;
    while (bell.rings() <= count && std::chrono::steady_clock::now() < deadline) ::usleep(500);
    return bell.rings() > count;
  };
  sqlite::WalWatcher watcher(fixture.path(), bell);
  REQUIRE(rings_beyond(0));  // it has begun to watch
  for (int i = 0; i < 5; ++i) {
    ::usleep(20'000);  // what the commit before caused has come
    const int before = bell.rings();
    fixture.insert({.id = "evt" + std::to_string(i)});
    CHECK(rings_beyond(before));
  }
  ::usleep(50'000);  // what the last commit caused has come
  const int before = bell.rings();
  std::ofstream(fixture.folder() / "unrelated.txt") << "noise";
  SQLite::Database reader(fixture.path(), SQLite::OPEN_READWRITE);
  reader.execAndGet("SELECT count(*) FROM outbox_messages");
  ::usleep(100'000);
  CHECK(bell.rings() == before);
}

TEST_CASE("it is noticed when a relay lets go of its lock file") {
  SqliteFixture fixture;
  CountingBell bell;
  const auto open_lock = [&](const char* name) {
    return std::make_unique<std::ofstream>(fixture.folder() / name);
  };
  auto earlier = open_lock("app.db-relay-1.lock");
  sqlite::WalWatcher watcher(fixture.path(), bell);
  const auto noticed = [&] {
    const auto deadline = std::chrono::steady_clock::now() + 10s;
    while (!watcher.take_peer_change() && std::chrono::steady_clock::now() < deadline) {
      ::usleep(500);
    }
    return std::chrono::steady_clock::now() < deadline;
  };
  REQUIRE(noticed());  // it has begun to watch
  auto later = open_lock("app.db-relay-2.lock");
  CHECK(noticed());
  for (auto* lock : {&earlier, &later}) {
    ::usleep(20'000);  // nothing more comes of what was before
    watcher.take_peer_change();
    lock->reset();
    CHECK(noticed());
  }
  ::usleep(20'000);
  watcher.take_peer_change();
  open_lock("other.db-relay-3.lock");
  ::usleep(20'000);
  CHECK_FALSE(watcher.take_peer_change());
}

TEST_CASE("the bell rings when the database may be written again") {
  SqliteFixture fixture;
  CountingBell bell;
  sqlite::WalWatcher watcher(fixture.path(), bell);
  while (bell.rings() == 0) ::usleep(500);
  ::usleep(50'000);
  const int before = bell.rings();
  std::filesystem::permissions(fixture.path(), std::filesystem::perms::owner_read);
  const auto deadline = std::chrono::steady_clock::now() + 10s;
  while (bell.rings() == before && std::chrono::steady_clock::now() < deadline) ::usleep(500);
  CHECK(bell.rings() > before);
}

TEST_CASE("the bell works for a database that comes later, and again after a swap") {
  SqliteFixture fixture;
  const auto folder = fixture.folder() / "later";
  const std::string path = (folder / "app.db").string();
  CountingBell bell;
  sqlite::WalWatcher watcher(path, bell);
  const auto rings_beyond = [&](int count) {
    const auto deadline = std::chrono::steady_clock::now() + 10s;
    while (bell.rings() <= count && std::chrono::steady_clock::now() < deadline) ::usleep(500);
    return bell.rings() > count;
  };
  std::filesystem::create_directory(folder);
  REQUIRE(rings_beyond(0));
  for (int round = 0; round < 2; ++round) {
    sqlite::apply_schema(path, sqlite::mapping_of(fixture.settings()));
    SQLite::Database application(path, SQLite::OPEN_READWRITE);
    application.exec("INSERT INTO outbox_messages (id, event_type, payload) VALUES ('a','t','p')");
    ::usleep(50'000);
    const int before = bell.rings();
    application.exec("INSERT INTO outbox_messages (id, event_type, payload) VALUES ('b','t','p')");
    CHECK(rings_beyond(before));
    for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(path + suffix);
  }
}

}  // namespace
}  // namespace outbox::conformance
