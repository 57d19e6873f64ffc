#include "tests/conformance/mapped_fixture.h"

#include <fmt/format.h>

#include <utility>

#include "storage/mapping/mapping.h"
#include "storage/sqlite/dialect.h"

namespace outbox::conformance {
MappedFixture::MappedFixture(TableShape shape) : shape_(std::move(shape)) {
  SQLite::Database database(path(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  database.exec("PRAGMA journal_mode=WAL");
  database.exec(shape_.create);
}

StoreSettings MappedFixture::settings() const {
  StoreSettings settings = shape_.settings;
  settings.url = "sqlite://" + path();
  return settings;
}

std::string MappedFixture::table() const { return quoted(shape_.settings.table); }

void MappedFixture::remove(const std::string& id) {
  SQLite::Statement statement(application(),
                              fmt::format("DELETE FROM {} WHERE {} = ?", table(), shape_.key));
  statement.bind(1, id);
  statement.exec();
}

RowState MappedFixture::read(const std::string& id) {
  SQLite::Statement statement(
      application(),
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
    application().exec(
        fmt::format("CREATE TRIGGER \"refuse {} {}\" BEFORE {} ON {} WHEN old.{} = '{}' "
                    "BEGIN SELECT raise(ABORT, 'this row is under audit'); END",
                    change, id, change, table(), shape_.key, id));
  }
}

std::string MappedFixture::column(const std::string& name) const {
  const Mapping mapping = sqlite::mapping_of(settings());
  return name == "headers" ? mapping.columns.headers : mapping.columns.event_type;
}

}  // namespace outbox::conformance
