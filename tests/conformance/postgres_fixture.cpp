#include "tests/conformance/postgres_fixture.h"

#include <fmt/format.h>

#include <utility>

#include "storage/postgres/postgres_desk.h"
#include "storage/postgres/schema.h"
#include "tests/servers/postgresql.h"

namespace outbox::conformance {
namespace {

// Where the server's clock stands when the test clock stands at zero: 2026-11-01, in microseconds.
constexpr std::int64_t kStart = 1'793'491'200'000'000;

constexpr std::chrono::milliseconds kJustBefore{10};

std::int64_t microseconds(Duration time) {
  return std::chrono::floor<std::chrono::microseconds>(time).count();
}

PostgresShape relay_table() {
  PostgresShape shape;
  shape.insert =
      "INSERT INTO {0}.outbox_messages (id, event_type, payload, ordering_key, destination, "
      "content_type, headers, traceparent, occurred_on_utc, not_before_utc) "
      "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
  shape.table = "outbox_messages";
  shape.key = "id";
  return shape;
}

}  // namespace

const std::string& shared_database() {
  static const std::string url = testing::PostgresqlServer::instance().new_database("SQL_ASCII");
  return url;
}

PostgresFixture::PostgresFixture() : PostgresFixture(relay_table()) {}

PostgresFixture::PostgresFixture(PostgresShape shape) : shape_(std::move(shape)) {
  static int number = 0;
  schema_ = fmt::format("fixture{}", ++number);
  run(fmt::format("CREATE SCHEMA {}", schema_));
  // An unlogged sequence can be moved without that counting as a write.
  run(fmt::format("CREATE UNLOGGED SEQUENCE {}.clock MINVALUE 0", schema_));
  advance(Duration{0});
  if (!shape_.create.empty()) run(fmt::format(fmt::runtime(shape_.create), schema_));
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
  StoreSettings settings = shape_.settings;
  settings.url = shared_database();
  settings.table = schema_ + "." + settings.table;
  settings.broker = "main";
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

// Each row is a microsecond later than the one before: a table may have no other order. All of it
// happened just before now.
void PostgresFixture::insert(const NewRow& row) {
  const postgres::ServerTime now{
      std::chrono::microseconds(kStart + microseconds(clock_.now().time_since_epoch()))};
  std::optional<postgres::ServerTime> not_before;
  if (row.not_before) {
    not_before = now + std::chrono::microseconds(microseconds(*row.not_before));
  }
  run(fmt::format(fmt::runtime(shape_.insert), schema_), row.id, row.event_type,
      postgres::Bytes{row.payload}, row.ordering_key, row.destination, row.content_type,
      row.headers, row.traceparent, now - kJustBefore + std::chrono::microseconds(++inserted_),
      not_before);
}

void PostgresFixture::remove(const std::string& id) {
  run(fmt::format("DELETE FROM {} WHERE {} = $1", table(), shape_.key), id);
}

// What stands beside a row of another table counts for what its own columns say.
RowState PostgresFixture::read(const std::string& id) {
  const bool own = shape_.create.empty();
  postgres::Rows rows = run(
      own ? fmt::format("SELECT status, retry_count, last_error, dead_letter_reason, "
                        "next_attempt_on_utc IS NOT NULL, processed_on_utc IS NOT NULL "
                        "FROM {} WHERE id = $1",
                        table())
          : fmt::format("SELECT coalesce(r.state, {}), coalesce(r.retry_count, {}, 0), "
                        "CASE WHEN r.state IS NULL THEN {} ELSE r.error END, r.dead_letter_reason, "
                        "r.due IS NOT NULL, coalesce(r.processed_on, {}) IS NOT NULL FROM {} AS o "
                        "LEFT JOIN {}.outbox_relay_rows AS r ON r.row_key = o.{} WHERE o.{} = $1",
                        shape_.state, shape_.retry_count, shape_.last_error, shape_.processed,
                        table(), schema_, shape_.key, shape_.key),
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
      fmt::format("CREATE TRIGGER \"refuse_{0}\" BEFORE UPDATE OR DELETE ON {1} "
                  "FOR EACH ROW WHEN (old.{2} = '{0}') EXECUTE FUNCTION {3}.refuse()",
                  id, table(), shape_.key, schema_));
}

std::string PostgresFixture::column(const std::string& name) const {
  const Mapping mapping = postgres::mapping_of(settings());
  return name == "headers" ? mapping.columns.headers : mapping.columns.event_type;
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
