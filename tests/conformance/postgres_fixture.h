// An outbox in a PostgreSQL database, for the suite that every store passes and for tests of its
// own.
#pragma once

#include <doctest/doctest.h>

#include <atomic>
#include <memory>
#include <string>

#include "storage/postgres/postgres_store.h"
#include "tests/conformance/store_conformance.h"

namespace outbox::conformance {

class PostgresTestClock final : public Clock {
 public:
  Time now() const override { return Time(Duration(now_.load())); }
  void advance(Duration time) { now_ += time.count(); }

 private:
  std::atomic<Duration::rep> now_{Duration(std::chrono::hours{1000}).count()};
};

class SilentBell final : public Bell {
 public:
  void ring() override { ++rings_; }
  int rings() const { return rings_; }

 private:
  std::atomic<int> rings_{0};
};

// In a schema of its own, with a server clock that only the test moves. The database takes any
// bytes as text.
class PostgresFixture : public StoreFixture {
 public:
  PostgresFixture();
  ~PostgresFixture() override;

  std::unique_ptr<OutboxStore> open_store() override;
  std::unique_ptr<OutboxDesk> open_desk() override;
  void insert(const NewRow& row) override;
  void remove(const std::string& id) override;
  RowState read(const std::string& id) override;
  void refuse_changes(const std::string& id) override;
  std::uint64_t histories() const override { return 6; }
  void advance(Duration time) override;
  std::int64_t version() override;

  StoreSettings settings() const;
  const std::string& schema() const { return schema_; }
  // SQL for the server's clock as this test has it.
  std::string server_clock() const;
  const PostgresTestClock& clock() const { return clock_; }
  SilentBell& bell() { return bell_; }
  // The application's connection.
  postgres::Connection& application();
  template <class... Values>
  postgres::Rows run(const std::string& sql, const Values&... values) {
    application().begin_work();
    return postgres::ask(application(), sql, values...);
  }

 private:
  std::string schema_;
  PostgresTestClock clock_;
  SilentBell bell_;
  std::unique_ptr<postgres::Connection> application_;
};

// The database that all fixtures of a program share.
const std::string& shared_database();

}  // namespace outbox::conformance
