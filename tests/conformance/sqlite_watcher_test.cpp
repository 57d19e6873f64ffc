// The bell: rung by commits of others, and by nothing else.
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <utility>

#include "storage/sqlite/dialect.h"
#include "storage/sqlite/schema.h"
#include "storage/sqlite/wal_watcher.h"
#include "tests/conformance/sqlite_fixture.h"

namespace outbox::conformance {
namespace {

using namespace std::chrono_literals;
using SteadyClock = std::chrono::steady_clock;

bool comes_true(const std::function<bool()>& condition) {
  const auto deadline = SteadyClock::now() + 10s;
  while (!condition()) {
    if (SteadyClock::now() >= deadline) return false;
    ::usleep(500);
  }
  return true;
}

// Takes what is still to come of things that were done before: until nothing has come for a while.
void let_pass(const std::function<bool()>& take) {
  constexpr auto kSilence = 50ms;
  auto last = SteadyClock::now();
  const bool silent = comes_true([&] {
    if (take()) last = SteadyClock::now();
    return SteadyClock::now() - last >= kSilence;
  });
  REQUIRE_MESSAGE(silent, "it never ends");
}

// A watched database's bell.
struct Ear {
  // Whether it has rung since the last call.
  bool take() {
    const int rings = bell.rings();
    return std::exchange(heard, rings) != rings;
  }
  bool hears() {
    return comes_true([this] { return take(); });
  }
  void forget() {
    let_pass([this] { return take(); });
  }

  CountingBell bell;
  int heard = 0;
};

void insert(SQLite::Database& application, const std::string& id) {
  application.exec("INSERT INTO outbox_messages (id, event_type, payload) VALUES ('" + id +
                   "', 't', 'p')");
}

TEST_CASE("the bell rings when the application commits, not otherwise") {
  SqliteFixture fixture;
  fixture.insert({.id = "a"});
  Ear ear;
  const sqlite::WalWatcher watcher(fixture.path(), ear.bell);
  REQUIRE(ear.hears());  // it has begun to watch
  for (int i = 0; i < 5; ++i) {
    ear.forget();
    fixture.insert({.id = "evt" + std::to_string(i)});
    CHECK(ear.hears());
  }
  ear.forget();
  const int before = ear.bell.rings();
  std::ofstream(fixture.folder() / "unrelated.txt") << "noise";
  SQLite::Database reader(fixture.path(), SQLite::OPEN_READWRITE);
  reader.execAndGet("SELECT count(*) FROM outbox_messages");
  ear.forget();
  CHECK(ear.bell.rings() == before);
}

TEST_CASE("it is noticed when a relay lets go of its lock file") {
  SqliteFixture fixture;
  CountingBell bell;
  const auto open_lock = [&](const char* name) {
    return std::make_unique<std::ofstream>(fixture.folder() / name);
  };
  auto earlier = open_lock("app.db-relay-1.lock");
  sqlite::WalWatcher watcher(fixture.path(), bell);
  const auto take = [&] { return watcher.take_peer_change(); };
  REQUIRE(comes_true(take));  // it has begun to watch
  auto later = open_lock("app.db-relay-2.lock");
  CHECK(comes_true(take));
  for (auto* lock : {&earlier, &later}) {
    let_pass(take);
    lock->reset();
    CHECK(comes_true(take));
  }
  let_pass(take);
  open_lock("other.db-relay-3.lock");
  bool told = false;
  let_pass([&] {
    told = take() || told;
    return false;
  });
  CHECK_FALSE(told);
}

TEST_CASE("the bell rings when the database's permissions change") {
  SqliteFixture fixture;
  Ear ear;
  const sqlite::WalWatcher watcher(fixture.path(), ear.bell);
  REQUIRE(ear.hears());
  for (const auto permissions :
       {std::filesystem::perms::owner_read, std::filesystem::perms::owner_all}) {
    ear.forget();
    std::filesystem::permissions(fixture.path(), permissions);
    CHECK(ear.hears());
  }
}

TEST_CASE("the bell works for a database that comes later, and again after a swap") {
  SqliteFixture fixture;
  const auto folder = fixture.folder() / "later";
  const std::string path = (folder / "app.db").string();
  Ear ear;
  const sqlite::WalWatcher watcher(path, ear.bell);
  std::filesystem::create_directory(folder);
  REQUIRE(ear.hears());
  for (int round = 0; round < 2; ++round) {
    sqlite::apply_schema(path, sqlite::mapping_of(fixture.settings()));
    SQLite::Database application(path, SQLite::OPEN_READWRITE);
    insert(application, "a");
    ear.forget();
    insert(application, "b");
    CHECK(ear.hears());
    for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(path + suffix);
  }
}

}  // namespace
}  // namespace outbox::conformance
