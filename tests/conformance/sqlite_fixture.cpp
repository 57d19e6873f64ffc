#include "tests/conformance/sqlite_fixture.h"

#include "storage/sqlite/dialect.h"
#include "storage/sqlite/schema.h"
#include "storage/sqlite/sqlite_desk.h"

namespace outbox::conformance {
namespace {

using std::chrono::sys_days;

// Where the wall clock stands when the test clock stands at zero.
constexpr WallTime kWallStart = sys_days{std::chrono::year{2026} / 11 / 1};

void bind_maybe(SQLite::Statement& statement, int index, const std::optional<std::string>& value) {
  if (value) {
    statement.bind(index, *value);
  } else {
    statement.bind(index);
  }
}

}  // namespace

SqliteFixture::SqliteFixture() { sqlite::apply_schema(path(), sqlite::mapping_of(settings())); }

StoreSettings SqliteFixture::settings() const {
  StoreSettings settings;
  settings.url = "sqlite://" + path();
  settings.create_relay_tables = create_relay_tables;
  return settings;
}

sqlite::Clocks DatabaseFixture::clocks() const {
  return {
      .boot = &clock_,
      .wall =
          [this] {
            return kWallStart + wall_offset_ +
                   std::chrono::floor<std::chrono::milliseconds>(clock_.now().time_since_epoch());
          },
      .boot_id = boot_id};
}

StoreSettings DatabaseFixture::store_settings() const {
  StoreSettings shared = settings();
  shared.broker = "main";
  return shared;
}

std::unique_ptr<OutboxStore> DatabaseFixture::open_store() {
  return std::make_unique<sqlite::SqliteStore>(store_settings(), clocks(), bell_);
}

std::unique_ptr<OutboxDesk> DatabaseFixture::open_desk() {
  return std::make_unique<sqlite::SqliteDesk>(settings(), clocks().wall);
}

SQLite::Database& DatabaseFixture::application() {
  if (!application_) {
    application_ = std::make_unique<SQLite::Database>(path(), SQLite::OPEN_READWRITE, 5000);
  }
  return *application_;
}

void DatabaseFixture::insert_by(const std::string& sql, const NewRow& row) {
  SQLite::Statement statement(application(), sql);
  statement.bind(1, row.id);
  statement.bind(2, row.event_type);
  statement.bind(3, row.payload.data(), static_cast<int>(row.payload.size()));
  bind_maybe(statement, 4, row.ordering_key);
  bind_maybe(statement, 5, row.destination);
  bind_maybe(statement, 6, row.content_type);
  bind_maybe(statement, 7, row.headers);
  bind_maybe(statement, 8, row.traceparent);
  const WallTime now = clocks().wall();
  statement.bind(9, to_text(now));
  std::optional<std::string> not_before;
  if (row.not_before) {
    not_before = to_text(now + std::chrono::floor<std::chrono::milliseconds>(*row.not_before));
  }
  bind_maybe(statement, 10, not_before);
  statement.exec();
}

void SqliteFixture::insert(const NewRow& row) {
  insert_by(
      "INSERT INTO outbox_messages (id, event_type, payload, ordering_key, destination, "
      "content_type, headers, traceparent, occurred_on_utc, not_before_utc) "
      "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
      row);
}

void SqliteFixture::remove(const std::string& id) {
  SQLite::Statement statement(application(), "DELETE FROM outbox_messages WHERE id = ?");
  statement.bind(1, id);
  statement.exec();
}

RowState SqliteFixture::read(const std::string& id) {
  SQLite::Statement statement(
      application(),
      "SELECT status, retry_count, last_error, dead_letter_reason, next_attempt_on_utc, "
      "processed_on_utc FROM outbox_messages WHERE id = ?");
  statement.bind(1, id);
  RowState row;
  if (!statement.executeStep()) return row;
  const auto text = [&](int index) {
    return statement.isColumnNull(index) ? std::nullopt
                                         : std::optional(statement.getColumn(index).getString());
  };
  row.status = statement.getColumn(0).getString();
  row.retry_count = statement.getColumn(1).getUInt();
  row.last_error = text(2);
  row.dead_letter_reason = text(3);
  row.has_due_time = text(4).has_value();
  row.has_processed_time = text(5).has_value();
  return row;
}

void SqliteFixture::refuse_changes(const std::string& id) {
  for (const std::string change : {"UPDATE", "DELETE"}) {
    application().exec("CREATE TRIGGER refuse_" + change + "_" + id + " BEFORE " + change +
                       " ON outbox_messages WHEN old.id = '" + id +
                       "' BEGIN SELECT raise(ABORT, 'this row is under audit'); END");
  }
}

std::int64_t DatabaseFixture::number(const std::string& sql) {
  return application().execAndGet(sql).getInt64();
}

}  // namespace outbox::conformance
