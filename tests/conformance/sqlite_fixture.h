// An outbox in a database file of its own, for tests.
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>

#include "storage/sqlite/sqlite_store.h"
#include "tests/conformance/store_conformance.h"

namespace outbox::conformance {

// A folder that is removed with its contents.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

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

class SqliteFixture final : public StoreFixture {
 public:
  SqliteFixture();

  std::unique_ptr<OutboxStore> open_store() override;
  std::unique_ptr<OutboxDesk> open_desk() override;
  void insert(const NewRow& row) override;
  void remove(const std::string& id) override;
  RowState read(const std::string& id) override;
  void refuse_changes(const std::string& id) override;
  void advance(Duration time) override;
  std::int64_t version() override;

  // For what only SQLite has.
  std::filesystem::path folder() const { return folder_.path(); }
  std::string path() const { return (folder_.path() / "app.db").string(); }
  StoreSettings settings() const;
  sqlite::Clocks clocks() const;
  // The application's connection.
  SQLite::Database& application();
  void close_application() { application_.reset(); }
  void shift_wall(std::chrono::milliseconds time) { wall_offset_ += time; }
  CountingBell& bell() { return bell_; }
  std::int64_t number(const std::string& sql);

  bool create_relay_tables = true;
  std::string boot_id = "boot-one";

 private:
  TemporaryFolder folder_;
  TestClock clock_;
  CountingBell bell_;
  std::chrono::milliseconds wall_offset_{0};
  std::unique_ptr<SQLite::Database> application_;
};

}  // namespace outbox::conformance
