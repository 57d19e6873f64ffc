#include "storage/sqlite/dialect.h"

#include <fmt/format.h>

#include <string>
#include <utility>

namespace outbox::sqlite {
namespace {

// The rowid under its own name, or one of those by which SQLite knows it and the table does not.
std::string order_of(const Mapping& mapping, const std::vector<TableColumn>& columns) {
  for (const TableColumn& column : columns) {
    if (column.rowid) return column.name;
  }
  for (const char* name : {"rowid", "_rowid_", "oid"}) {
    if (find_column(columns, name) == nullptr) return name;
  }
  throw Unusable(
      fmt::format("the table {} uses all names of the rowid for its own columns", mapping.table));
}

}  // namespace

const Dialect& dialect() {
  static const Dialect sqlite{
      .name = "SQLite",
      .system_prefix = "sqlite_",
      .cap_payload_sql =
          "CASE WHEN json_valid({}) THEN iif(json_type({}, '$.Value') = 'null', "
          "'null', json_extract({}, '$.Value')) END",
      .cap_headers_sql =
          "CASE WHEN json_valid({}) THEN (SELECT json_group_object(key, value) "
          "FROM json_each({}, '$.Headers') WHERE value IS NOT NULL) END"};
  return sqlite;
}

Mapping mapping_of(const StoreSettings& settings) {
  return outbox::mapping_of(settings, dialect());
}

Mapping resolved(Mapping mapping, const std::vector<TableColumn>& columns) {
  mapping = resolve(std::move(mapping), columns);
  mapping.order = order_of(mapping, columns);
  return mapping;
}

}  // namespace outbox::sqlite
