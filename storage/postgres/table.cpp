#include "storage/postgres/table.h"

#include <fmt/format.h>

#include <utility>

namespace outbox::postgres {
namespace {

bool is_integer(const std::string& type) {
  return type == "bigint" || type == "integer" || type == "smallint";
}

// Whether no two rows have the same value there.
bool is_unique(Connection& connection, std::int64_t oid, const std::string& column) {
  return ask(connection,
             "SELECT 1 FROM pg_catalog.pg_index AS i JOIN pg_catalog.pg_attribute AS a "
             "ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0] WHERE i.indrelid = "
             "$1::int8::oid "
             "AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indnkeyatts = 1 "
             "AND a.attname = $2",
             oid, column)
      .next();
}

// What rises with each insert: the row's number, or its time; else the key has to do.
std::string order_of(const Table& table) {
  const Columns& c = table.mapping.columns;
  if (!c.sequence.empty()) return c.sequence;
  if (is_integer(table.type_of(c.id))) return c.id;
  const std::string time = table.type_of(c.occurred_on);
  return time.starts_with("timestamp") ? c.occurred_on : c.id;
}

void require_key(Connection& connection, const Table& table) {
  const std::string& key = table.mapping.row_key();
  if (is_unique(connection, table.oid, key)) return;
  throw Unusable(
      fmt::format("the column {} of the table {} in {} may repeat: CREATE UNIQUE INDEX "
                  "CONCURRENTLY ON {} ({});",
                  key, table.mapping.table, connection.label(), table.qualified(), quoted(key)));
}

// Due times of an own table are compared by the server.
void require_times(const Table& table) {
  const Columns& c = table.mapping.columns;
  for (const auto& [column, key] :
       {std::pair(c.not_before, "notBefore"), std::pair(c.next_attempt, "nextAttempt")}) {
    if (column.empty() || table.type_of(column).starts_with("timestamp")) continue;
    throw Unusable(fmt::format(
        "the column {} of the table {} must be a timestamp with time zone: change its type, or say "
        "store.columns.{}: \"\" so that the relay does without",
        column, table.mapping.table, key));
  }
}

}  // namespace

std::string Table::type_of(const std::string& column) const {
  if (column.empty()) return {};
  const TableColumn* found = find_column(columns, column);
  return found == nullptr ? "" : found->type;
}

bool Table::holds_failed() const {
  const Columns& c = mapping.columns;
  return !c.status.empty() && !mapping.states.failed.empty() && !c.retry_count.empty() &&
         !c.next_attempt.empty();
}

Found find_table(Connection& connection, const TableName& name) {
  Rows rows =
      ask(connection,
          "SELECT n.nspname::text, c.relname::text, c.oid::int8, c.relkind::text "
          "FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n "
          "ON n.oid = c.relnamespace WHERE pg_catalog.lower(c.relname) = pg_catalog.lower($1) "
          "AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND CASE WHEN $2 = '' "
          "THEN pg_catalog.pg_table_is_visible(c.oid) ELSE n.nspname = $2 END "
          "ORDER BY c.relname = $1 DESC LIMIT 1",
          name.table, name.schema);
  if (rows.next()) return {rows.text(0), rows.text(1), rows.integer(2), rows.text(3)};
  Found none{name.schema, name.table, 0, {}};
  if (none.schema.empty()) {
    Rows current = ask(connection, "SELECT pg_catalog.current_schema()::text");
    if (current.next()) none.schema = current.text(0);
  }
  return none;
}

// Types without what limits them, so that a text can be cast to one: char(36) is "bpchar", while
// "character" would be char(1).
std::vector<TableColumn> columns_of(Connection& connection, std::int64_t oid) {
  Rows rows = ask(connection,
                  "SELECT attname::text, pg_catalog.format_type(CASE WHEN t.typtype = 'd' "
                  "THEN t.typbasetype ELSE a.atttypid END, -1), "
                  "a.attgenerated <> '' OR a.attidentity = 'a', NOT a.attnotnull "
                  "FROM pg_catalog.pg_attribute AS a JOIN pg_catalog.pg_type AS t "
                  "ON t.oid = a.atttypid WHERE a.attrelid = $1::int8::oid AND a.attnum > 0 "
                  "AND NOT a.attisdropped ORDER BY a.attnum",
                  oid);
  std::vector<TableColumn> columns;
  while (rows.next()) {
    columns.push_back({rows.text(0), rows.text(1), false, rows.boolean(2), rows.boolean(3)});
  }
  return columns;
}

Table require_outbox(Connection& connection, const StoreSettings& settings) {
  const Found found = find_table(connection, table_name(settings.table));
  Mapping mapping = mapping_of(settings);
  if (found.oid == 0) {
    throw Unusable(fmt::format("{} has no table {} yet: the application creates it{}",
                               connection.label(), settings.table,
                               mapping.foreign ? "" : " (outbox-relay init prints it)"));
  }
  if (found.kind != "r" && found.kind != "p") {
    throw Unusable(fmt::format("{} in {} must be a table: a view keeps no rows of its own",
                               settings.table, connection.label()));
  }
  Table table;
  table.schema = found.schema;
  table.oid = found.oid;
  table.columns = columns_of(connection, found.oid);
  mapping.table = found.table;
  table.mapping = resolve(std::move(mapping), table.columns);
  table.mapping.order = order_of(table);
  require_key(connection, table);
  require_times(table);
  return table;
}

}  // namespace outbox::postgres
