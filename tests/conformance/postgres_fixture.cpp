#include "tests/conformance/postgres_fixture.h"

#include <fmt/format.h>

#include "storage/postgres/postgres_desk.h"
#include "storage/postgres/schema.h"
#include "tests/servers/postgresql.h"

namespace outbox::conformance {
namespace {

// Where the server's clock stands when the test clock stands at zero: 2026-11-01, in microseconds.
constexpr std::int64_t kStart = 1'793'491'200'000'000;

std::int64_t microseconds(Duration time) {
  return std::chrono::floor<std::chrono::microseconds>(time).count();
}

}  // namespace

const std::string& shared_database() {
  static const std::string url = testing::PostgresqlServer::instance().new_database("SQL_ASCII");
  return url;
}

PostgresFixture::PostgresFixture() {
  static int number = 0;
  schema_ = fmt::format("fixture{}", ++number);
  run(fmt::format("CREATE SCHEMA {}", schema_));
  // An unlogged sequence can be moved without that counting as a write.
  run(fmt::format("CREATE UNLOGGED SEQUENCE {}.clock MINVALUE 0", schema_));
  advance(Duration{0});
  application().begin_work();
  postgres::apply_schema(application(), settings());
}

PostgresFixture::~PostgresFixture() {
  try {
    run(fmt::format("DROP SCHEMA {} CASCADE", schema_));
  } catch (const std::exception& error) {
    MESSAGE(error.what());
  }
}

StoreSettings PostgresFixture::settings() const {
  StoreSettings settings;
  settings.url = shared_database();
  settings.table = schema_ + ".outbox_messages";
  return settings;
}

std::string PostgresFixture::server_clock() const {
  return fmt::format(
      "(SELECT timestamptz 'epoch' + last_value * interval '1 microsecond' FROM {}.clock)",
      schema_);
}

std::unique_ptr<OutboxStore> PostgresFixture::open_store() {
  return std::make_unique<postgres::PostgresStore>(settings(), clock_, bell_, server_clock());
}

std::unique_ptr<OutboxDesk> PostgresFixture::open_desk() {
  return std::make_unique<postgres::PostgresDesk>(settings(), server_clock());
}

postgres::Connection& PostgresFixture::application() {
  if (!application_) {
    StoreSettings where;
    where.url = shared_database();
    application_ =
        std::make_unique<postgres::Connection>(postgres::connection_settings(where, "test"));
    application_->command("SET client_encoding = 'SQL_ASCII'; SET client_min_messages = warning");
  }
  return *application_;
}

void PostgresFixture::insert(const NewRow& row) {
  std::optional<std::int64_t> not_before;
  if (row.not_before) not_before = microseconds(*row.not_before);
  run(fmt::format("INSERT INTO {0}.outbox_messages (id, event_type, payload, ordering_key, "
                  "destination, content_type, headers, traceparent, occurred_on_utc, "
                  "not_before_utc) SELECT $1, $2, $3, $4, $5, $6, $7, $8, c.now, "
                  "c.now + $9 * interval '1 microsecond' FROM (SELECT timestamptz 'epoch' + "
                  "last_value * interval '1 microsecond' AS now FROM {0}.clock) AS c",
                  schema_),
      row.id, row.event_type, postgres::Bytes{row.payload}, row.ordering_key, row.destination,
      row.content_type, row.headers, row.traceparent, not_before);
}

void PostgresFixture::remove(const std::string& id) {
  run(fmt::format("DELETE FROM {}.outbox_messages WHERE id = $1", schema_), id);
}

RowState PostgresFixture::read(const std::string& id) {
  postgres::Rows rows =
      run(fmt::format("SELECT status, retry_count, last_error, dead_letter_reason, "
                      "next_attempt_on_utc IS NOT NULL, processed_on_utc IS NOT NULL "
                      "FROM {}.outbox_messages WHERE id = $1",
                      schema_),
          id);
  RowState row;
  if (!rows.next()) return row;
  row.status = rows.text(0);
  row.retry_count = static_cast<std::uint32_t>(rows.integer(1));
  row.last_error = rows.maybe_text(2);
  row.dead_letter_reason = rows.maybe_text(3);
  row.has_due_time = rows.boolean(4);
  row.has_processed_time = rows.boolean(5);
  return row;
}

void PostgresFixture::refuse_changes(const std::string& id) {
  run(
      fmt::format("CREATE OR REPLACE FUNCTION {}.refuse() RETURNS trigger LANGUAGE plpgsql AS "
                  "$$ BEGIN RAISE EXCEPTION 'this row is under audit'; END $$",
                  schema_));
  run(
      fmt::format("CREATE TRIGGER \"refuse_{0}\" BEFORE UPDATE OR DELETE ON {1}.outbox_messages "
                  "FOR EACH ROW WHEN (old.id = '{0}') EXECUTE FUNCTION {1}.refuse()",
                  id, schema_));
}

void PostgresFixture::advance(Duration time) {
  clock_.advance(time);
  run(fmt::format("SELECT setval('{}.clock', $1)", schema_),
      kStart + microseconds(clock_.now().time_since_epoch()));
}

// Rises with each transaction that writes.
std::int64_t PostgresFixture::version() {
  postgres::Rows rows = run("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::int8");
  rows.next();
  return rows.integer(0);
}

}  // namespace outbox::conformance
