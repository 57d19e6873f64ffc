// The write-ahead log: when the relay moves it into the database.
#include <doctest/doctest.h>

#include <filesystem>
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

}  // namespace
}  // namespace outbox::conformance
