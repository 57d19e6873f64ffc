// The write-ahead log: when the relay moves it into the database.
#include <doctest/doctest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "tests/conformance/sqlite_fixture.h"

namespace outbox::conformance {
namespace {

using namespace std::chrono_literals;

// A log that only the relay moves, when it is over 1 MB.
struct LogFixture {
  LogFixture() {
    fixture.application().exec("PRAGMA wal_autocheckpoint=0");
    request.lease = {.limit = 100, .bytes = 4u << 20, .payload_max = 4u << 20, .term = 30s};
  }

  void take_turn() {
    ++request.number;
    committed(store.turn(request));
  }
  StoreSettings settings() const {
    StoreSettings settings = fixture.settings();
    settings.wal_limit = 1'000'000;
    return settings;
  }

  SqliteFixture fixture;
  sqlite::SqliteStore store{settings(), fixture.clocks(), fixture.bell()};
  TurnRequest request;
};

TEST_CASE_FIXTURE(LogFixture, "the log is moved into the database only when it is over its limit") {
  const auto database_bytes = [&] { return std::filesystem::file_size(fixture.path()); };
  const auto before = database_bytes();
  for (int i = 0; i < 10; ++i) fixture.insert({.id = "small" + std::to_string(i)});
  take_turn();
  CHECK(database_bytes() == before);
  fixture.insert({.id = "big", .payload = std::string(1'500'000, 'x')});
  fixture.advance(2s);
  take_turn();
  CHECK(database_bytes() > before + 1'500'000);
}

TEST_CASE_FIXTURE(LogFixture, "the log stays near its limit however fast it is written") {
  request.lease.limit = 1;
  for (int i = 0; i < 20; ++i) {  // 16 MB in a moment
    fixture.insert({.id = std::to_string(i), .payload = std::string(800'000, 'x')});
    take_turn();
  }
  CHECK(std::filesystem::file_size(fixture.path() + "-wal") < 3'000'000);
}

TEST_CASE("a log that was removed is not shared with the one that is there now") {
  SqliteFixture fixture;
  fixture.insert({.id = "a"});
  fixture.application().exec("PRAGMA wal_checkpoint(TRUNCATE)");
  fixture.close_application();
  auto old = std::make_unique<sqlite::Connection>(fixture.path(), 1s);
  old->require_wal();
  REQUIRE(old->same_file());
  std::filesystem::remove(fixture.path() + "-wal");
  CHECK_FALSE(old->same_file());
  SUBCASE("nor is its index") { std::filesystem::remove(fixture.path() + "-shm"); }
  {
    sqlite::Connection too_early(fixture.path(), 1s);
    CHECK_THROWS_WITH_AS(too_early.require_wal(), doctest::Contains("removed while it was in use"),
                         Unusable);
  }
  old.reset();
  sqlite::Connection anew(fixture.path(), 1s);
  anew.require_wal();
  CHECK(anew.same_file());
}

}  // namespace
}  // namespace outbox::conformance
