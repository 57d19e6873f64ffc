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

// A table of the application's own, and how it is mapped. In all SQL {0} is the schema.
struct PostgresShape {
  std::string create;
  StoreSettings settings;  // table, preset, columns, states, times
  std::string insert;      // $1 id, event type, payload, key, destination, content type, headers,
                           // traceparent, $9 time, $10 not before
  std::string table;       // quoted
  std::string key;         // the column of the id, quoted
  std::string state;       // the state's name by the table's own columns, as SQL
  std::string retry_count;
  std::string last_error;
  std::string processed;  // the time
  bool writable = true;   // a verdict changes the row
};

// In a schema of its own, with a server clock that only the test moves. The database takes any
// bytes as text.
class PostgresFixture : public StoreFixture {
 public:
  // In the relay's own table.
  PostgresFixture();
  explicit PostgresFixture(PostgresShape shape);
  ~PostgresFixture() override;

  std::unique_ptr<OutboxStore> open_store() override;
  std::unique_ptr<OutboxDesk> open_desk() override;
  void insert(const NewRow& row) override;
  void remove(const std::string& id) override;
  RowState read(const std::string& id) override;
  void refuse_changes(const std::string& id) override;
  bool writes_rows() const override { return shape_.writable; }
  std::string column(const std::string& name) const override;
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
  std::string table() const { return schema_ + "." + shape_.table; }

  const PostgresShape shape_;
  std::string schema_;
  int inserted_ = 0;
  PostgresTestClock clock_;
  SilentBell bell_;
  std::unique_ptr<postgres::Connection> application_;
};

// The database that all fixtures of a program share.
const std::string& shared_database();

}  // namespace outbox::conformance
