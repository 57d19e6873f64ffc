// Tables that the relay did not make, on PostgreSQL.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "storage/postgres/adoption.h"
#include "storage/postgres/desk.h"
#include "storage/postgres/postgres_desk.h"
#include "tests/conformance/postgres_fixture.h"
#include "tests/conformance/store_cases.h"

namespace outbox::conformance {

// A table of somebody else's in the schema of a fixture, whose own table stays empty.
class ForeignTable {
 public:
  // {} in the statement stands for the table's name.
  ForeignTable(const std::string& create, const std::string& preset) {
    settings_ = fixture_.settings();
    settings_.table = fixture_.schema() + ".box";
    settings_.preset = preset;
    run(create);
  }

  postgres::Rows run(const std::string& sql) {
    return fixture_.run(fmt::format(fmt::runtime(sql), settings_.table));
  }
  std::int64_t number(const std::string& sql) {
    postgres::Rows rows = run(sql);
    return rows.next() ? rows.integer(0) : -1;
  }
  void begin(const AdoptionOrder& order = {}) {
    postgres::Desk desk(settings_, fixture_.server_clock());
    postgres::adopt(desk.connection, desk.sql, order, desk.now);
  }
  std::unique_ptr<OutboxStore> store() {
    return std::make_unique<postgres::PostgresStore>(settings_, fixture_.clock(), fixture_.bell(),
                                                     fixture_.server_clock());
  }
  postgres::PostgresDesk desk() const {
    return postgres::PostgresDesk(settings_, fixture_.server_clock());
  }
  StoreSettings& settings() { return settings_; }
  PostgresFixture& fixture() { return fixture_; }

 private:
  PostgresFixture fixture_;
  StoreSettings settings_;
};

// One relay's turns.
class Turns {
 public:
  explicit Turns(ForeignTable& table) : store_(table.store()) {}

  Turn take(const std::vector<Settlement>& settlements = {}, std::size_t limit = 100) {
    TurnRequest request;
    request.number = ++number_;
    request.settlements = settlements;
    request.lease = {.limit = limit,
                     .retry_limit = limit,
                     .bytes = 1u << 20,
                     .payload_max = 1u << 20,
                     .term = std::chrono::seconds{30}};
    return done(store_->turn(request));
  }

 private:
  std::unique_ptr<OutboxStore> store_;
  std::uint64_t number_ = 0;
};

}  // namespace outbox::conformance
