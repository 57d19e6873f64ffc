#include "storage/sqlite/schema_gaps.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>

#include "storage/sqlite/schema.h"

namespace outbox::sqlite {
namespace {

struct Object {
  std::string type;
  std::string name;
  std::string table;
  std::string sql;
};

struct Column {
  std::string name;
  std::string type;
  bool required = false;
  std::optional<std::string> standard;  // its default, as an expression
};

std::vector<Object> objects_of(SQLite::Database& database) {
  Query list(database,
             "SELECT type, name, tbl_name, sql FROM main.sqlite_schema WHERE sql IS NOT NULL "
             "AND type IN ('table', 'index', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' "
             "ORDER BY type DESC, rowid");
  std::vector<Object> result;
  auto rows = list.rows();
  while (rows.next()) {
    result.push_back({rows.text(0), rows.text(1), rows.text(2), rows.text(3)});
  }
  return result;
}

std::vector<Column> columns_of(SQLite::Database& database, const std::string& table) {
  Query list(database,
             "SELECT name, type, \"notnull\" OR pk, dflt_value FROM pragma_table_xinfo(?, 'main')");
  std::vector<Column> result;
  auto rows = list.rows(table);
  while (rows.next()) {
    result.push_back({rows.text(0), rows.text(1), rows.integer(2) != 0, rows.maybe_text(3)});
  }
  return result;
}

bool same_name(std::string_view one, std::string_view other) { return lower(one) == lower(other); }

const Object* find(const std::vector<Object>& objects, const Object& wanted) {
  const auto found = std::ranges::find_if(objects, [&](const Object& one) {
    return same_name(one.name, wanted.name) && (one.type == "index") == (wanted.type == "index");
  });
  return found == objects.end() ? nullptr : &*found;
}

// SQLite adds no column that rows would lack a value for, nor one with a computed default.
std::string add_column(const std::string& table, const Column& column) {
  const bool computed = column.standard && column.standard->find('(') != std::string::npos;
  if (column.required && (!column.standard || computed)) return {};
  std::string sql = fmt::format("ALTER TABLE {} ADD COLUMN {} {}", quoted(table),
                                quoted(column.name), column.type);
  if (column.required) sql += " NOT NULL";
  if (column.standard && !computed) sql += " DEFAULT " + *column.standard;
  return sql + ";";
}

// The columns of an index, in order.
std::string shape_of(SQLite::Database& database, const std::string& index) {
  Query list(database,
             "SELECT lower(coalesce(name, '')) FROM pragma_index_xinfo(?, 'main') "
             "WHERE key ORDER BY seqno");
  std::string result;
  auto rows = list.rows(index);
  while (rows.next()) result += rows.text(0) + ",";
  return result;
}

// The rows that a partial index is for.
std::string condition_of(const std::string& index_sql) {
  const auto where = index_sql.rfind(" WHERE ");
  return where == std::string::npos ? "1" : index_sql.substr(where + 7);
}

// Whether SQLite would use the index that is there for what ours is meant for.
bool serves(Connection& connection, SQLite::Database& model, const Object& present,
            const Object& wanted) {
  if (!same_name(present.table, wanted.table)) return false;
  if (shape_of(connection.database(), present.name) != shape_of(model, wanted.name)) return false;
  try {
    Query probe(connection.database(),
                fmt::format("SELECT 1 FROM {} INDEXED BY {} WHERE {}", quoted(present.table),
                            quoted(present.name), condition_of(wanted.sql)));
    return true;
  } catch (const SQLite::Exception&) {
    return false;
  }
}

class Comparison {
 public:
  Comparison(Connection& connection, const Mapping& mapping)
      : connection_(connection),
        outbox_(mapping.table),
        model_(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE) {
    model_.exec(relay_ddl());
    make_outbox(mapping);
    present_ = objects_of(connection.database());
  }

  std::vector<SchemaGap> gaps() {
    for (const Object& wanted : objects_of(model_)) {
      wanted.type == "index" ? compare_index(wanted) : compare_table(wanted);
    }
    compare_version();
    return std::move(gaps_);
  }

 private:
  // A mapping with columns of its own, or without some of ours, is of a table that we don't make:
  // whether that is usable, require_outbox() says.
  void make_outbox(const Mapping& mapping) {
    const std::string ddl = outbox_ddl(mapping);
    if (ddl.empty()) return;
    try {
      model_.exec("BEGIN; " + ddl + "COMMIT;");
    } catch (const SQLite::Exception&) {
      model_.exec("ROLLBACK");
    }
  }

  SchemaGap gap(SchemaGap::Kind kind, const Object& wanted, const std::string& object) const {
    SchemaGap result;
    result.kind = kind;
    result.own = !same_name(wanted.table, outbox_);
    result.table = wanted.table;
    result.object = object;
    return result;
  }

  void compare_table(const Object& wanted) {
    const Object* present = find(present_, wanted);
    if (present == nullptr) {
      SchemaGap missing = gap(SchemaGap::Kind::table, wanted, wanted.name);
      missing.statement = wanted.sql + ";";
      gaps_.push_back(std::move(missing));
      return;
    }
    const auto columns = columns_of(connection_.database(), present->name);
    for (const Column& column : columns_of(model_, wanted.name)) {
      const bool there = std::ranges::any_of(
          columns, [&](const Column& one) { return same_name(one.name, column.name); });
      if (there) continue;
      SchemaGap missing = gap(SchemaGap::Kind::column, wanted, column.name);
      missing.statement = add_column(present->name, column);
      gaps_.push_back(std::move(missing));
    }
  }

  void compare_index(const Object& wanted) {
    const Object* present = find(present_, wanted);
    if (present != nullptr && serves(connection_, model_, *present, wanted)) return;
    SchemaGap missing = gap(SchemaGap::Kind::index, wanted, wanted.name);
    missing.unfit = present != nullptr;
    missing.statement = wanted.sql + ";";
    if (present != nullptr) {
      missing.statement =
          fmt::format("DROP INDEX IF EXISTS {}; {}", quoted(present->name), missing.statement);
    }
    gaps_.push_back(std::move(missing));
  }

  // The row that says which version the tables are of.
  void compare_version() {
    Object meta{
        .type = "table", .name = "outbox_relay_meta", .table = "outbox_relay_meta", .sql = {}};
    if (find(present_, meta) != nullptr && relay_schema_major(connection_) >= kSchemaMajor) return;
    SchemaGap missing = gap(SchemaGap::Kind::version, meta, "schema_major");
    missing.statement = fmt::format(
        "INSERT OR REPLACE INTO outbox_relay_meta (outbox, name, value) "
        "VALUES ('', 'schema_major', {}), ('', 'schema_minor', 0);",
        kSchemaMajor);
    gaps_.push_back(std::move(missing));
  }

  Connection& connection_;
  const std::string outbox_;
  SQLite::Database model_;
  std::vector<Object> present_;
  std::vector<SchemaGap> gaps_;
};

}  // namespace

std::vector<SchemaGap> schema_gaps(Connection& connection, const Mapping& mapping) {
  return Comparison(connection, mapping).gaps();
}

void pretend_relay_tables(Connection& connection, const std::vector<SchemaGap>& gaps) {
  constexpr std::string_view kCreate = "CREATE TABLE ";
  SQLite::Database& database = connection.database();
  const bool query_only = database.execAndGet("PRAGMA query_only").getInt() != 0;
  database.exec("PRAGMA query_only=OFF; PRAGMA temp_store=MEMORY");
  std::set<std::string> made;
  for (const SchemaGap& gap : gaps) {
    if (!gap.own) continue;
    if (gap.kind == SchemaGap::Kind::table && gap.statement.starts_with(kCreate)) {
      database.exec("CREATE TEMP TABLE " + gap.statement.substr(kCreate.size()));
      made.insert(gap.table);
    } else if (gap.kind == SchemaGap::Kind::index && made.contains(gap.table)) {
      database.exec(gap.statement);
    }
  }
  if (query_only) database.exec("PRAGMA query_only=ON");
}

void prepare_to_look(Connection& connection, const Mapping& mapping) {
  require_known_version(connection);
  if (relay_tables_complete(connection)) return;
  std::vector<SchemaGap> own = schema_gaps(connection, mapping);
  std::erase_if(own, [](const SchemaGap& gap) { return !gap.own; });
  if (std::ranges::any_of(
          own, [](const SchemaGap& gap) { return gap.kind == SchemaGap::Kind::column; })) {
    throw OtherVersion(fmt::format(
        "the relay's own tables in {} were made by an older program, and lack columns: the relay "
        "adds them when it starts, or run outbox-relay init --apply",
        connection.path()));
  }
  pretend_relay_tables(connection, own);
}

std::int64_t relay_schema_major(Connection& connection) {
  try {
    Query find_it(
        connection.database(),
        "SELECT value FROM outbox_relay_meta WHERE outbox = '' AND name = 'schema_major'");
    auto rows = find_it.rows();
    return rows.next() ? rows.integer(0) : 0;
  } catch (const SQLite::Exception&) {
    return 0;  // no such table, or not one of ours
  }
}

SchemaCheck compare_schema(Connection& connection, const Mapping& mapping) {
  require_known_version(connection);
  SchemaCheck check;
  const std::string mode = connection.database().execAndGet("PRAGMA main.journal_mode").getString();
  if (mode != "wal") check.missing.emplace_back("PRAGMA journal_mode=WAL;");
  for (const SchemaGap& gap : schema_gaps(connection, mapping)) {
    check.missing.push_back(statements_of({gap}));
  }
  try {
    require_outbox(connection, mapping);
    check.table_usable = true;
  } catch (const Unusable&) {
    check.table_usable = false;
  }
  return check;
}

std::string statements_of(const std::vector<SchemaGap>& gaps) {
  std::string result;
  for (const SchemaGap& gap : gaps) {
    if (!result.empty()) result += "\n";
    result +=
        gap.statement.empty()
            ? fmt::format("-- {} needs a column {}, which has to be given a value for each row",
                          gap.table, gap.object)
            : gap.statement;
  }
  return result;
}

}  // namespace outbox::sqlite
