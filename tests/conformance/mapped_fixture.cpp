#include "tests/conformance/mapped_fixture.h"

#include <fmt/format.h>

#include <utility>

#include "storage/sqlite/mapping.h"
#include "storage/sqlite/sqlite_desk.h"

namespace outbox::conformance {
namespace {

using std::chrono::sys_days;

constexpr sqlite::WallTime kWallStart = sys_days{std::chrono::year{2026} / 11 / 1};

void bind_maybe(SQLite::Statement& statement, int index, const std::optional<std::string>& value) {
  if (value) {
    statement.bind(index, *value);
  } else {
    statement.bind(index);
  }
}

}  // namespace

MappedFixture::MappedFixture(TableShape shape)
    : shape_(std::move(shape)),
      application_(std::make_unique<SQLite::Database>(
          path(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE, 5000)) {
  application_->exec("PRAGMA journal_mode=WAL");
  application_->exec(shape_.create);
}

StoreSettings MappedFixture::settings() const {
  StoreSettings settings = shape_.settings;
  settings.url = "sqlite://" + path();
  return settings;
}

sqlite::Clocks MappedFixture::clocks() const {
  return {.boot = &clock_,
          .wall =
              [this] {
                return kWallStart + std::chrono::floor<std::chrono::milliseconds>(
                                        clock_.now().time_since_epoch());
              },
          .boot_id = "boot-one"};
}

std::string MappedFixture::table() const { return sqlite::quoted(shape_.settings.table); }

std::unique_ptr<OutboxStore> MappedFixture::open_store() {
  return std::make_unique<sqlite::SqliteStore>(settings(), clocks(), bell_);
}

std::unique_ptr<OutboxDesk> MappedFixture::open_desk() {
  return std::make_unique<sqlite::SqliteDesk>(settings(), clocks().wall);
}

void MappedFixture::insert(const NewRow& row) {
  SQLite::Statement statement(*application_, shape_.insert);
  statement.bind(1, row.id);
  statement.bind(2, row.event_type);
  statement.bind(3, row.payload.data(), static_cast<int>(row.payload.size()));
  bind_maybe(statement, 4, row.ordering_key);
  bind_maybe(statement, 5, row.destination);
  bind_maybe(statement, 6, row.content_type);
  bind_maybe(statement, 7, row.headers);
  bind_maybe(statement, 8, row.traceparent);
  const sqlite::WallTime now = clocks().wall();
  statement.bind(9, sqlite::to_text(now));
  std::optional<std::string> not_before;
  if (row.not_before) {
    not_before =
        sqlite::to_text(now + std::chrono::floor<std::chrono::milliseconds>(*row.not_before));
  }
  bind_maybe(statement, 10, not_before);
  statement.exec();
}

void MappedFixture::remove(const std::string& id) {
  SQLite::Statement statement(*application_,
                              fmt::format("DELETE FROM {} WHERE {} = ?", table(), shape_.key));
  statement.bind(1, id);
  statement.exec();
}

RowState MappedFixture::read(const std::string& id) {
  SQLite::Statement statement(
      *application_,
      fmt::format("SELECT coalesce(r.state, {}), coalesce(r.retry_count, {}, 0), "
                  "CASE WHEN r.state IS NULL THEN {} ELSE r.error END, r.dead_letter_reason, "
                  "r.due, coalesce(r.processed_on, {}) FROM {} AS o "
                  "LEFT JOIN outbox_relay_rows AS r ON r.row_key = o.{} WHERE o.{} = ?",
                  shape_.state, shape_.retry_count, shape_.last_error, shape_.processed, table(),
                  shape_.key, shape_.key));
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

void MappedFixture::refuse_changes(const std::string& id) {
  for (const char* change : {"UPDATE", "DELETE"}) {
    application_->exec(
        fmt::format("CREATE TRIGGER \"refuse {} {}\" BEFORE {} ON {} WHEN old.{} = '{}' "
                    "BEGIN SELECT raise(ABORT, 'this row is under audit'); END",
                    change, id, change, table(), shape_.key, id));
  }
}

std::string MappedFixture::column(const std::string& name) const {
  const sqlite::Mapping mapping = sqlite::mapping_of(settings());
  return name == "headers" ? mapping.columns.headers : mapping.columns.event_type;
}

std::int64_t MappedFixture::version() {
  return application_->execAndGet("PRAGMA data_version").getInt64();
}

}  // namespace outbox::conformance
