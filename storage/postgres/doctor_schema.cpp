// The doctor's look at tables, indexes, grants and triggers.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "storage/postgres/doctor.h"
#include "storage/postgres/doctor_checks.h"
#include "storage/postgres/grants.h"
#include "storage/postgres/schema.h"

namespace outbox::postgres {
namespace {

constexpr std::int64_t kTablesNamed = 10;
constexpr std::size_t kColumnsOfAnotherKind = 5;

// The tables that there are, for somebody who has another name in mind.
std::string other_tables(Connection& connection) {
  Rows rows = ask(connection,
                  "SELECT CASE WHEN pg_catalog.pg_table_is_visible(c.oid) THEN c.relname::text "
                  "ELSE n.nspname || '.' || c.relname END FROM pg_catalog.pg_class AS c "
                  "JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace "
                  "WHERE c.relkind IN ('r', 'p') AND n.nspname NOT LIKE 'pg\\_%' "
                  "AND n.nspname <> 'information_schema' "
                  "AND c.relname NOT LIKE 'outbox\\_relay\\_%' ORDER BY 1 LIMIT $1",
                  kTablesNamed);
  std::vector<std::string> names;
  while (rows.next()) names.push_back(rows.text(0));
  return names.empty() ? "It has no table at all."
                       : fmt::format("It has: {}.", fmt::join(names, ", "));
}

std::string statements_of(const std::vector<SchemaPart>& parts) {
  std::string result;
  for (const SchemaPart& part : parts) result += (result.empty() ? "" : "\n") + part.statement;
  return result;
}

// A schema that the search path names and that the role may not look into: its tables are as if
// they were not there.
bool check_schema_usage(Connection& connection, const TableName& name, Findings& findings) {
  Rows rows = ask(connection,
                  "SELECT n.nspname::text, current_user::text FROM pg_catalog.pg_namespace AS n "
                  "JOIN pg_catalog.pg_class AS c ON c.relnamespace = n.oid AND c.relname = $1 "
                  "WHERE NOT pg_catalog.has_schema_privilege(n.oid, 'USAGE') AND CASE WHEN $2 = '' "
                  "THEN n.nspname = ANY(ARRAY(SELECT btrim(p, ' \"') FROM unnest(string_to_array("
                  "current_setting('search_path'), ',')) AS p)) ELSE n.nspname = $2 END LIMIT 1",
                  name.table, name.schema);
  if (!rows.next()) return true;
  const Need need{.kind = Need::Kind::schema, .object = rows.text(0), .privilege = "USAGE"};
  findings.push_back(
      {.severity = Severity::error,
       .code = "grant_missing",
       .what = fmt::format("The role {} lacks USAGE on the schema {}.", rows.text(1), rows.text(0)),
       .why = "Nothing in that schema can be read or written without.",
       .fix_kind = FixKind::sql,
       .fix = need.grant(rows.text(1))});
  return false;
}

void add_missing_table(Connection& connection, const StoreSettings& settings,
                       const Mapping& mapping, const std::string& schema, Findings& findings) {
  Finding finding{.severity = Severity::error,
                  .code = "table_missing",
                  .what = fmt::format("{} has no table {}. {}", connection.label(), settings.table,
                                      other_tables(connection)),
                  .why = "The relay waits for the application to create it."};
  if (mapping.foreign) {
    finding.fix = "Let the application's migration create it, or correct store.table.";
  } else {
    finding.why += " If it has another name, that is store.table.";
    finding.fix_kind = FixKind::sql;
    finding.fix = statements_of(outbox_parts(mapping, schema));
  }
  findings.push_back(std::move(finding));
}

// The definitions of columns, by name, as our own statement has them.
std::string column_definition(const std::string& statement, const std::string& column) {
  const std::string start = "  " + quoted(column) + " ";
  const auto at = statement.find(start);
  if (at == std::string::npos) return {};
  const auto end = statement.find_first_of("\n", at);
  std::string line = statement.substr(at + 2, end - at - 2);
  while (!line.empty() && (line.back() == ',' || line.back() == ' ')) line.pop_back();
  return line;
}

// Whether the table has all of our columns. To add them to a table of another kind would be bad
// advice: require_outbox() has a better one.
bool check_columns(Connection& connection, const Mapping& mapping, const Found& found,
                   const std::vector<SchemaPart>& parts, Findings& findings) {
  const auto present = columns_of(connection, found.oid);
  std::vector<std::string> missing;
  for (const ColumnChoice& choice : mapping.choices) {
    const std::string& name = choice.names.front();
    if (choice.required && find_column(present, name) == nullptr) missing.push_back(name);
  }
  if (missing.empty() || missing.size() >= kColumnsOfAnotherKind) return missing.empty();
  const std::string table = quoted(found.schema) + "." + quoted(found.table);
  for (const std::string& name : missing) {
    findings.push_back({.severity = Severity::error,
                        .code = "column_missing",
                        .what = fmt::format("The table {} has no column {}.", found.table, name),
                        .why = "The relay reads or writes it with each row.",
                        .fix_kind = FixKind::sql,
                        .fix = fmt::format("ALTER TABLE {} ADD COLUMN {};", table,
                                           column_definition(parts.front().statement, name))});
  }
  return false;
}

// An index as the catalogue has it: its columns and its condition.
struct IndexForm {
  std::string columns;
  std::string condition;
  bool valid = false;
};

std::optional<IndexForm> index_form(Connection& connection, const std::string& schema,
                                    const std::string& name, const std::string& table) {
  Rows rows = ask(connection,
                  "SELECT array_to_string(ARRAY(SELECT pg_catalog.pg_get_indexdef(i.indexrelid, k, "
                  "true) FROM generate_series(1, i.indnkeyatts) AS k ORDER BY k), ','), "
                  "coalesce(pg_catalog.pg_get_expr(i.indpred, i.indrelid), ''), "
                  "i.indisvalid AND t.relname = $3 FROM pg_catalog.pg_index AS i "
                  "JOIN pg_catalog.pg_class AS c ON c.oid = i.indexrelid "
                  "JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace "
                  "JOIN pg_catalog.pg_class AS t ON t.oid = i.indrelid "
                  "WHERE n.nspname = $1 AND c.relname = $2",
                  schema, name, table);
  if (!rows.next()) return std::nullopt;
  return IndexForm{bare(rows.text(0)), bare(rows.text(1)), rows.boolean(2)};
}

// The same of a statement of ours: ... ON table (columns) WHERE condition;
IndexForm wanted_form(const std::string& statement) {
  IndexForm form;
  const auto where = statement.find(" WHERE ");
  const auto open = statement.rfind(" (", where);
  const auto close = statement.find(')', open);
  form.columns = bare(statement.substr(open + 2, close - open - 2));
  if (where != std::string::npos) form.condition = bare(statement.substr(where + 7));
  form.valid = true;
  return form;
}

bool is_index(const SchemaPart& part) {
  return part.statement.find("CREATE INDEX") != std::string::npos;
}

void check_indexes(Connection& connection, const Found& found, const std::vector<SchemaPart>& parts,
                   Findings& findings) {
  // So that the application can go on writing; of a partitioned table the server can't.
  const std::string concurrently = found.kind == "p" ? "" : "CONCURRENTLY ";
  for (const SchemaPart& part : parts) {
    if (!is_index(part)) continue;
    const auto present = index_form(connection, found.schema, part.name, found.table);
    const IndexForm wanted = wanted_form(part.statement);
    const bool fits = present && present->valid && present->columns == wanted.columns &&
                      present->condition == wanted.condition;
    if (fits) continue;
    Finding finding{
        .severity = Severity::warning,
        .code = present ? "index_unfit" : "index_missing",
        .what = present ? fmt::format("The index {} of {} is not the one that the relay's queries "
                                      "need{}.",
                                      part.name, found.table,
                                      present->valid ? "" : ", or was never completed")
                        : fmt::format("The table {} has no index {}.", found.table, part.name),
        .why = "To find the rows that are due, the relay reads the whole table.",
        .fix_kind = FixKind::sql,
        .fix = part.statement};
    const auto create = finding.fix.find("CREATE INDEX ");
    finding.fix.insert(create + 13, concurrently);
    std::replace(finding.fix.begin(), finding.fix.end(), '\n', ' ');
    if (present) {
      finding.fix = fmt::format("DROP INDEX {}{}.{}; ", concurrently, quoted(found.schema),
                                quoted(part.name)) +
                    finding.fix;
    }
    findings.push_back(std::move(finding));
  }
}

std::vector<SchemaPart> missing_parts(Connection& connection, const std::string& schema) {
  std::vector<SchemaPart> missing;
  for (SchemaPart& part : relay_parts(schema)) {
    const bool there = ask(connection,
                           "SELECT 1 FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace "
                           "AS n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2",
                           schema, part.name)
                           .next();
    if (!there) missing.push_back(std::move(part));
  }
  return missing;
}

bool check_own_tables(Connection& connection, const std::string& schema, Findings& findings) {
  try {
    require_relay_tables(connection, schema);
    return true;
  } catch (const NewerTables& error) {
    findings.push_back({.severity = Severity::error,
                        .code = "relay_tables_newer",
                        .what = std::string(error.what()) + ".",
                        .why = "An older program might misread them, and refuses to start.",
                        .fix = "Run the outbox-relay that made them, or a newer one."});
    return false;
  } catch (const Unusable&) {
    const std::vector<SchemaPart> missing = missing_parts(connection, schema);
    if (missing.empty()) return true;  // not to be read: which right is lacking is told later
    const bool slow_only = std::all_of(missing.begin(), missing.end(), is_index);
    findings.push_back(
        {.severity = Severity::error,
         .code = slow_only ? "relay_tables_outdated" : "relay_tables_missing",
         .what = fmt::format("{}, schema {}, lacks {} of the relay's own.", connection.label(),
                             schema, slow_only ? "indexes" : "tables"),
         .why = "Without them the relay can't lease rows or remember what became of them; on a "
                "server it does not create them by itself.",
         .fix_kind = FixKind::sql,
         .fix = statements_of(missing)});
    return false;
  }
}

}  // namespace

std::string bare(const std::string& sql) {
  std::string text;
  for (const char letter : sql) {
    const bool left_out = letter == '"' || letter == '(' || letter == ')' || letter == ';' ||
                          letter == '[' || letter == ']' ||
                          std::isspace(static_cast<unsigned char>(letter)) != 0;
    if (!left_out) text += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  // IN (a, b) is kept as = ANY (ARRAY[a, b]).
  for (const auto& [from, to] : {std::pair<std::string, std::string>{"=anyarray", "in"},
                                 {"::text", ""},
                                 {"::charactervarying", ""},
                                 {"::bpchar", ""}}) {
    for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at)) {
      text.replace(at, from.size(), to);
    }
  }
  return text;
}

bool check_schema(Connection& connection, const StoreSettings& settings, Findings& findings) {
  const TableName name = table_name(settings.table);
  if (!check_schema_usage(connection, name, findings)) return false;
  const Found found = find_table(connection, name);
  Mapping mapping = mapping_of(settings);
  mapping.table = found.table;
  const std::vector<SchemaPart> parts = outbox_parts(mapping, found.schema);
  bool usable = true;
  if (found.oid == 0) {
    add_missing_table(connection, settings, mapping, found.schema, findings);
    usable = false;
  } else if (!mapping.foreign) {
    usable = check_columns(connection, mapping, found, parts, findings);
    if (usable) check_indexes(connection, found, parts, findings);
  }
  const bool named = !usable && !findings.empty() && findings.back().code.ends_with("_missing");
  if (!check_own_tables(connection, found.schema, findings) || named) return false;
  try {
    require_outbox(connection, settings);
    return true;
  } catch (const Unusable& error) {
    findings.push_back({.severity = Severity::error,
                        .code = "table_unsuitable",
                        .what = std::string(error.what()) + ".",
                        .why = "The relay refuses to work on it.",
                        .fix = "Do what the message says; outbox-relay init prints a table that "
                               "fits."});
    return false;
  }
}

bool check_grants(Connection& connection, const Table& table, Findings& findings) {
  Rows self = ask(connection, "SELECT current_user::text");
  const std::string role = self.next() ? self.text(0) : "";
  bool readable = true;
  for (const Need& need : missing_needs(connection, table)) {
    readable = readable && need.privilege != "SELECT" && need.kind != Need::Kind::schema;
    findings.push_back(
        {.severity = need.optional ? Severity::information : Severity::error,
         .code = "grant_missing",
         .what = fmt::format("The role {} lacks {} on {}{}.", role, need.privilege,
                             need.kind == Need::Kind::schema ? "the schema " : "", need.object),
         .why = need.purpose.empty() ? "The relay can't do its work without."
                                     : fmt::format("It is needed {}.", need.purpose),
         .fix_kind = FixKind::sql,
         .fix = need.grant(role)});
  }
  return readable;
}

void check_triggers(Connection& connection, const Table& table, Findings& findings) {
  // tgtype has bit 16 for UPDATE and bit 1 for each row; tgattr names the columns of UPDATE OF.
  Rows rows = ask(connection,
                  "SELECT t.tgname::text FROM pg_catalog.pg_trigger AS t WHERE t.tgrelid = "
                  "$1::int8::oid AND NOT t.tgisinternal AND t.tgenabled <> 'D' "
                  "AND (t.tgtype & 16) <> 0 AND (cardinality(t.tgattr::int2[]) = 0 OR EXISTS "
                  "(SELECT 1 FROM pg_catalog.pg_attribute AS a WHERE a.attrelid = t.tgrelid "
                  "AND a.attnum = ANY(t.tgattr::int2[]) AND a.attname = ANY($2::text[]))) "
                  "ORDER BY 1",
                  table.oid, written_columns(table.mapping));
  while (rows.next()) {
    findings.push_back(
        {.severity = Severity::warning,
         .code = "update_trigger",
         .what = fmt::format("The trigger {} of {} fires when the relay settles a row.",
                             rows.text(0), table.mapping.table),
         .why = "It runs once for each delivered event. If it fails, the row's state is kept "
                "beside the outbox, where the application does not see it.",
         .fix_kind = FixKind::sql,
         .fix = fmt::format("DROP TRIGGER {} ON {};  -- or make it anew with UPDATE OF and only "
                            "columns that the application changes",
                            quoted(rows.text(0)), table.qualified())});
  }
}

// Lost when the server crashes, and not copied to others.
void check_persistence(Connection& connection, const Table& table, Findings& findings) {
  Rows rows = ask(connection,
                  "SELECT n.nspname::text, c.relname::text FROM pg_catalog.pg_class AS c "
                  "JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace "
                  "WHERE c.relpersistence = 'u' AND c.relkind = 'r' AND (c.oid = $1::int8::oid OR "
                  "n.nspname = $2 AND c.relname LIKE 'outbox\\_relay\\_%') ORDER BY 2",
                  table.oid, table.schema);
  while (rows.next()) {
    findings.push_back(
        {.severity = Severity::warning,
         .code = "unlogged",
         .what = fmt::format("The table {} is UNLOGGED.", rows.text(1)),
         .why = "After a crash of the server, and on a copy that takes its place, it is empty: "
                "events, or what became of them, are lost.",
         .fix_kind = FixKind::sql,
         .fix = fmt::format("ALTER TABLE {}.{} SET LOGGED;", quoted(rows.text(0)),
                            quoted(rows.text(1)))});
  }
}

void check_row_security(Connection& connection, const Table& table, Findings& findings) {
  Rows rows = ask(connection,
                  "SELECT current_user::text WHERE pg_catalog.row_security_active($1::int8::oid)",
                  table.oid);
  if (!rows.next()) return;
  findings.push_back({.severity = Severity::warning,
                      .code = "row_security",
                      .what = fmt::format("Row security of {} applies to the role {}.",
                                          table.mapping.table, rows.text(0)),
                      .why = "Rows that its policies hide are never delivered.",
                      .fix_kind = FixKind::sql,
                      .fix = fmt::format("CREATE POLICY outbox_relay ON {} TO {} USING (true);",
                                         table.qualified(), quoted(rows.text(0)))});
}

}  // namespace outbox::postgres
