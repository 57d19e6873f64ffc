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
  if (table.partitioned) {
    throw Unusable(fmt::format(
        "the column {} of the table {} in {} may repeat in another partition: partition it by {} "
        "(PARTITION BY RANGE ({}) or HASH) rather than by something else",
        key, table.mapping.table, connection.label(), key, quoted(key)));
  }
  throw Unusable(
      fmt::format("the column {} of the table {} in {} may repeat: CREATE UNIQUE INDEX "
                  "CONCURRENTLY ON {} ({});",
                  key, table.mapping.table, connection.label(), table.qualified(), quoted(key)));
}

// What is unique in a table may stand in one that inherits from it as well.
void require_no_heirs(Connection& connection, const Table& table) {
  if (table.partitioned) return;
  Rows heirs = ask(connection,
                   "SELECT inhrelid::regclass::text FROM pg_catalog.pg_inherits "
                   "WHERE inhparent = $1::int8::oid ORDER BY 1 LIMIT 1",
                   table.oid);
  if (!heirs.next()) return;
  throw Unusable(
      fmt::format("the column {} of the table {} in {} may repeat in a table that inherits from "
                  "it: ALTER TABLE {} NO INHERIT {};",
                  table.mapping.row_key(), table.mapping.table, connection.label(), heirs.text(0),
                  table.qualified()));
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

// A place in the order is a whole number of 8 bytes. Others would be rounded, or be too large for
// it.
void require_order(Connection& connection, const Table& table) {
  const std::string& column = table.mapping.columns.sequence;
  const std::string type = table.type_of(column);
  if (type != "numeric" && type != "real" && type != "double precision") return;
  // A numeric's precision and scale, in the type's modifier.
  const bool fits =
      type == "numeric" &&
      ask(connection,
          "SELECT 1 FROM pg_catalog.pg_attribute WHERE attrelid = $1::int8::oid AND attname = $2 "
          "AND atttypmod > 4 AND ((atttypmod - 4) & 65535) = 0 AND (atttypmod - 4) >> 16 <= 18",
          table.oid, column)
          .next();
  if (fits) return;
  throw Unusable(fmt::format(
      "the column {} of the table {} may hold numbers that are not whole, or too large: "
      "ALTER TABLE {} ALTER COLUMN {} TYPE bigint;",
      column, table.mapping.table, table.qualified(), quoted(column)));
}

// A rule that puts another statement in the place of ours: whatever it does, no row is changed.
void require_no_rules(Connection& connection, const Table& table) {
  Rows rules = ask(connection,
                   "SELECT rulename::text FROM pg_catalog.pg_rewrite WHERE ev_class = "
                   "$1::int8::oid AND is_instead AND ev_type IN ('2', '4') "
                   "AND ev_enabled IN ('O', 'A') ORDER BY 1 LIMIT 1",
                   table.oid);
  if (!rules.next()) return;
  throw Unusable(fmt::format(
      "the rule {0} of the table {1} in {2} does something else instead of what the relay does to "
      "its rows: DROP RULE {3} ON {4};",
      rules.text(0), table.mapping.table, connection.label(), quoted(rules.text(0)),
      table.qualified()));
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

// Types below domains, and without what limits them, so that a text can be cast to one: char(36) is
// "bpchar", while "character" would be char(1).
std::vector<TableColumn> columns_of(Connection& connection, std::int64_t oid) {
  Rows rows = ask(connection,
                  "WITH RECURSIVE base AS (SELECT a.attnum, a.atttypid AS type "
                  "FROM pg_catalog.pg_attribute AS a WHERE a.attrelid = $1::int8::oid "
                  "UNION ALL SELECT b.attnum, t.typbasetype FROM base AS b "
                  "JOIN pg_catalog.pg_type AS t ON t.oid = b.type WHERE t.typtype = 'd') "
                  "SELECT a.attname::text, pg_catalog.format_type(b.type, -1), "
                  "a.attgenerated <> '' OR a.attidentity = 'a', NOT a.attnotnull "
                  "FROM pg_catalog.pg_attribute AS a JOIN base AS b ON b.attnum = a.attnum "
                  "JOIN pg_catalog.pg_type AS t ON t.oid = b.type AND t.typtype <> 'd' "
                  "WHERE a.attrelid = $1::int8::oid AND a.attnum > 0 "
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
  table.partitioned = found.kind == "p";
  table.columns = columns_of(connection, found.oid);
  mapping.table = found.table;
  table.mapping = resolve(std::move(mapping), table.columns);
  table.mapping.order = order_of(table);
  require_key(connection, table);
  require_no_heirs(connection, table);
  require_times(table);
  require_order(connection, table);
  require_no_rules(connection, table);
  return table;
}

}  // namespace outbox::postgres
