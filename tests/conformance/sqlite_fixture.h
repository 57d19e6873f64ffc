// An outbox in an SQLite database, for the suite that every store passes and for tests of its own.
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>
#include <doctest/doctest.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>

#include "storage/sqlite/sqlite_store.h"
#include "tests/conformance/store_conformance.h"
#include "tests/temporary_folder.h"

namespace outbox::conformance {

class TestClock final : public Clock {
 public:
  Time now() const override { return Time(Duration(now_.load())); }
  void advance(Duration time) { now_ += time.count(); }

 private:
  std::atomic<Duration::rep> now_{Duration(std::chrono::hours{1000}).count()};
};

class CountingBell final : public Bell {
 public:
  void ring() override { ++rings_; }
  int rings() const { return rings_; }

 private:
  std::atomic<int> rings_{0};
};

// A database file of its own, whatever table the outbox in it is.
class DatabaseFixture : public StoreFixture {
 public:
  std::unique_ptr<OutboxStore> open_store() override;
  std::unique_ptr<OutboxDesk> open_desk() override;
  void advance(Duration time) override { clock_.advance(time); }
  std::int64_t version() override { return number("PRAGMA data_version"); }

  virtual StoreSettings settings() const = 0;
  // As a relay gets them.
  StoreSettings store_settings() const;
  std::filesystem::path folder() const { return folder_.path(); }
  std::string path() const { return folder_.file("app.db"); }
  sqlite::Clocks clocks() const;
  // The application's connection.
  SQLite::Database& application();
  void close_application() { application_.reset(); }
  void shift_wall(std::chrono::milliseconds time) { wall_offset_ += time; }
  CountingBell& bell() { return bell_; }
  std::int64_t number(const std::string& sql);

  std::string boot_id = "boot-one";

 protected:
  // `sql` takes the ten values of a row as they stand in NewRow, with the time before the last.
  void insert_by(const std::string& sql, const NewRow& row);

 private:
  testing::TemporaryFolder folder_;
  TestClock clock_;
  CountingBell bell_;
  std::chrono::milliseconds wall_offset_{0};
  std::unique_ptr<SQLite::Database> application_;
};

// In the relay's own table.
class SqliteFixture final : public DatabaseFixture {
 public:
  SqliteFixture();

  void insert(const NewRow& row) override;
  void remove(const std::string& id) override;
  RowState read(const std::string& id) override;
  void refuse_changes(const std::string& id) override;
  StoreSettings settings() const override;

  bool create_relay_tables = true;
};

// The turn must have been committed; shows why it was not.
inline Turn committed(Turn turn) {
  REQUIRE_MESSAGE(turn.status == TurnStatus::committed, turn.error);
  return turn;
}

}  // namespace outbox::conformance
