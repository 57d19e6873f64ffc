// The doctor's look at tables, indexes and triggers.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <string_view>

#include "storage/sqlite/doctor.h"
#include "storage/sqlite/doctor_checks.h"
#include "storage/sqlite/schema.h"

namespace outbox::sqlite {
namespace {

using Kind = SchemaGap::Kind;

// A table that lacks so many columns was made for something else.
constexpr std::size_t kTablesNamed = 10;
constexpr std::ptrdiff_t kColumnsOfAnotherKind = 5;

void check_journal(Connection& connection, Findings& findings) {
  const std::string mode = connection.database().execAndGet("PRAGMA main.journal_mode").getString();
  if (mode == "wal") return;
  findings.push_back({.severity = Severity::error,
                      .code = "journal_mode",
                      .what = fmt::format("{} keeps a '{}' journal, not a write-ahead log.",
                                          connection.path(), mode),
                      .why = "Readers would block writers: the relay would make the application "
                             "wait, and refuses to work so.",
                      .fix_kind = FixKind::sql,
                      .fix = "PRAGMA journal_mode=WAL;"});
}

void check_encoding(Connection& connection, Findings& findings) {
  const std::string encoding = connection.database().execAndGet("PRAGMA encoding").getString();
  if (encoding == "UTF-8") return;
  const std::string& path = connection.path();
  findings.push_back(
      {.severity = Severity::error,
       .code = "encoding",
       .what = fmt::format("{} keeps its texts in {}.", path, encoding),
       .why = "Payloads that are texts would be converted on their way; the relay refuses that.",
       .fix_kind = FixKind::command,
       .fix = fmt::format("(echo \"PRAGMA encoding='UTF-8'; PRAGMA journal_mode=WAL;\"; sqlite3 "
                          "'{0}' .dump) | sqlite3 '{0}.utf8'",
                          path)});
}

// The tables that there are, for somebody who has another name in mind.
std::string other_tables(Connection& connection) {
  std::vector<std::string> tables = tables_of(connection);
  if (tables.size() > kTablesNamed) tables.resize(kTablesNamed);
  return tables.empty() ? "It has no table at all."
                        : fmt::format("It has: {}.", fmt::join(tables, ", "));
}

// With its indexes, so that one round is enough.
Finding missing_table(Connection& connection, const std::string& table,
                      const std::vector<SchemaGap>& gaps) {
  return {.severity = Severity::error,
          .code = "table_missing",
          .what = fmt::format("{} has no table {}. {}", connection.path(), table,
                              other_tables(connection)),
          .why =
              "The relay waits for the application to create it. If it has another name, that "
              "is store.table.",
          .fix_kind = FixKind::sql,
          .fix = statements_of(gaps)};
}

Finding missing_foreign_table(Connection& connection, const Mapping& mapping) {
  return {.severity = Severity::error,
          .code = "table_missing",
          .what = fmt::format("{} has no table {}. {}", connection.path(), mapping.table,
                              other_tables(connection)),
          .why = "The relay waits for the application to create it.",
          .fix = "Let the application's migration create it, or correct store.table."};
}

bool has_outbox(Connection& connection, const Mapping& mapping) {
  Query find(connection.database(),
             "SELECT 1 FROM main.sqlite_schema WHERE type IN ('table', 'view') "
             "AND lower(name) = lower(?)");
  auto rows = find.rows(mapping.table);
  return rows.next();
}

Finding missing_column(const SchemaGap& gap) {
  Finding finding{.severity = Severity::error,
                  .code = "column_missing",
                  .what = fmt::format("The table {} has no column {}.", gap.table, gap.object),
                  .why = "The relay reads or writes it with each row.",
                  .fix_kind = FixKind::sql,
                  .fix = gap.statement};
  if (!gap.statement.empty()) return finding;
  finding.fix_kind = FixKind::advice;
  finding.fix =
      "It needs a value in each row, so that the table has to be made anew: outbox-relay init "
      "prints it.";
  return finding;
}

Finding missing_index(const SchemaGap& gap) {
  return {.severity = Severity::warning,
          .code = gap.unfit ? "index_unfit" : "index_missing",
          .what = gap.unfit ? fmt::format("The index {} of {} is not the one that the relay's "
                                          "queries need.",
                                          gap.object, gap.table)
                            : fmt::format("The table {} has no index {}.", gap.table, gap.object),
          .why = "To find the rows that are due, the relay reads the whole table.",
          .fix_kind = FixKind::sql,
          .fix = gap.statement};
}

// Those of the relay's own tables, or those of the outbox.
std::vector<SchemaGap> gaps_of(const std::vector<SchemaGap>& gaps, bool own) {
  std::vector<SchemaGap> result;
  std::ranges::copy_if(gaps, std::back_inserter(result),
                       [&](const SchemaGap& gap) { return gap.own == own; });
  return result;
}

// To add our columns to such a table would be bad advice: require_outbox() has a better one.
bool is_of_another_kind(const std::vector<SchemaGap>& outbox) {
  return std::ranges::count(outbox, Kind::column, &SchemaGap::kind) >= kColumnsOfAnotherKind;
}

void add_newer(const Connection& connection, std::int64_t major, Findings& findings) {
  findings.push_back(
      {.severity = Severity::error,
       .code = "relay_tables_newer",
       .what = fmt::format("The relay's tables in {} are of version {}; this program "
                           "knows up to {}.",
                           connection.path(), major, kSchemaMajor),
       .why = "An older program might misread them, and refuses to start.",
       .fix = "Run the outbox-relay that made them, or a newer one."});
}

bool lacks_tables_only(const std::vector<SchemaGap>& own) {
  std::set<std::string> tables;
  for (const SchemaGap& gap : own) {
    if (gap.kind == Kind::table) tables.insert(gap.table);
  }
  return std::ranges::all_of(own, [&](const SchemaGap& gap) { return tables.contains(gap.table); });
}

bool lacks_indexes_only(const std::vector<SchemaGap>& own) {
  return std::ranges::all_of(own, [](const SchemaGap& gap) { return gap.kind == Kind::index; });
}

void add_missing_own_tables(const Connection& connection, const StoreSettings& settings,
                            const std::vector<SchemaGap>& own, Findings& findings) {
  Finding finding{.severity = Severity::information,
                  .code = "relay_tables_missing",
                  .what = fmt::format("{} lacks tables of the relay's own.", connection.path()),
                  .why = "The relay creates them when it starts.",
                  .fix = "Nothing needs to be done; `outbox-relay init` prints their statements."};
  if (!settings.create_relay_tables) {
    finding.severity = Severity::error;
    finding.why =
        "Without them the relay can't lease rows or remember what became of them, and "
        "store.createRelayTables is off.";
    finding.fix_kind = FixKind::sql;
    finding.fix = statements_of(own);
  }
  findings.push_back(std::move(finding));
}

void add_outdated_own_tables(const Connection& connection, const std::vector<SchemaGap>& own,
                             Findings& findings) {
  const bool slow_only = lacks_indexes_only(own);
  findings.push_back(
      {.severity = slow_only ? Severity::warning : Severity::error,
       .code = "relay_tables_outdated",
       .what = fmt::format("The relay's own tables in {} are not as this program needs them.",
                           connection.path()),
       .why = slow_only ? "Without these indexes the relay finds its rows slowly or not at all."
                        : "The relay can't lease rows or remember what became of them.",
       .fix_kind = FixKind::sql,
       .fix = statements_of(own)});
}

bool check_own_tables(Connection& connection, const StoreSettings& settings,
                      const std::vector<SchemaGap>& gaps, Findings& findings) {
  const std::int64_t major = relay_schema_major(connection);
  if (major > kSchemaMajor) {
    add_newer(connection, major, findings);
    return false;
  }
  const std::vector<SchemaGap> own = gaps_of(gaps, true);
  if (own.empty()) return true;
  if (!lacks_tables_only(own)) {
    add_outdated_own_tables(connection, own, findings);
    return false;
  }
  add_missing_own_tables(connection, settings, own, findings);
  pretend_relay_tables(connection, gaps);
  return true;
}

void add_unsuitable(const std::string& what, Findings& findings) {
  findings.push_back({.severity = Severity::error,
                      .code = "table_unsuitable",
                      .what = what + ".",
                      .why = "The relay refuses to work on it.",
                      .fix = "Do what the message says; outbox-relay init prints a table that "
                             "fits."});
}

// The words of a statement in upper case, quoted names as one word each.
std::vector<std::string> words_of(std::string_view sql) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < sql.size();) {
    const char first = sql[at];
    std::size_t end = at + 1;
    if (first == '-' && sql.substr(at).starts_with("--")) {
      at = std::min(sql.find('\n', at), sql.size());
      continue;
    }
    if (first == '/' && sql.substr(at).starts_with("/*")) {
      const auto close = sql.find("*/", at + 2);
      at = close == std::string_view::npos ? sql.size() : close + 2;
      continue;
    }
    if (first == '"' || first == '`' || first == '[' || first == '\'') {
      const auto close = sql.find(first == '[' ? ']' : first, at + 1);
      end = close == std::string_view::npos ? sql.size() : close + 1;
      words.emplace_back(sql.substr(at + 1, end - at - 2));
    } else if (std::isalnum(static_cast<unsigned char>(first)) != 0 || first == '_') {
      while (end < sql.size() &&
             (std::isalnum(static_cast<unsigned char>(sql[end])) != 0 || sql[end] == '_')) {
        ++end;
      }
      words.emplace_back(sql.substr(at, end - at));
    } else if (first == '.') {
      words.emplace_back(".");
    }
    at = end;
  }
  return words;
}

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char letter) {
    return static_cast<char>(std::toupper(letter));
  });
  return text;
}

// What the relay sets when it settles a row.
std::vector<std::string> written_columns(const Mapping& mapping) {
  const Columns& c = mapping.columns;
  std::vector<std::string> columns = {c.status,     c.retry_count,  c.next_attempt,
                                      c.last_error, c.processed_on, c.dead_letter_reason};
  std::erase(columns, "");
  return columns;
}

}  // namespace

bool check_schema(Connection& connection, const StoreSettings& settings, const Mapping& mapping,
                  Findings& findings) {
  const std::size_t before = findings.size();
  check_journal(connection, findings);
  check_encoding(connection, findings);
  const std::vector<SchemaGap> gaps = schema_gaps(connection, mapping);
  const bool no_table = std::ranges::any_of(
      gaps, [](const SchemaGap& gap) { return !gap.own && gap.kind == Kind::table; });
  const std::vector<SchemaGap> outbox = gaps_of(gaps, false);
  const bool other_kind = is_of_another_kind(outbox);
  for (const SchemaGap& gap : outbox) {
    if (other_kind) break;
    if (gap.kind == Kind::table) findings.push_back(missing_table(connection, gap.table, outbox));
    if (gap.kind == Kind::column) findings.push_back(missing_column(gap));
    if (gap.kind == Kind::index && !no_table) findings.push_back(missing_index(gap));
  }
  const auto is_error = [](const Finding& one) { return one.severity == Severity::error; };
  const bool broken =
      std::any_of(findings.begin() + static_cast<std::ptrdiff_t>(before), findings.end(), is_error);
  if (!check_own_tables(connection, settings, gaps, findings) || broken) return false;
  if (mapping.foreign && !has_outbox(connection, mapping)) {
    findings.push_back(missing_foreign_table(connection, mapping));
    return false;
  }
  try {
    require_outbox(connection, mapping);
    return true;
  } catch (const Unusable& error) {
    add_unsuitable(error.what(), findings);
    return false;
  }
}

// CREATE [TEMP] TRIGGER [IF NOT EXISTS] name [BEFORE|AFTER|INSTEAD OF] event [OF columns] ON table
bool fires_on_update(const std::string& trigger_sql, const std::vector<std::string>& columns) {
  const std::vector<std::string> words = words_of(trigger_sql);
  std::size_t at = 0;
  while (at < words.size() && upper(words[at]) != "TRIGGER") ++at;
  ++at;
  if (at + 2 < words.size() && upper(words[at]) == "IF" && upper(words[at + 1]) == "NOT") at += 3;
  ++at;  // its name, or its schema's
  if (at < words.size() && words[at] == ".") at += 2;
  while (at < words.size() && (upper(words[at]) == "BEFORE" || upper(words[at]) == "AFTER")) ++at;
  if (at >= words.size() || upper(words[at]) != "UPDATE") return false;
  if (++at >= words.size() || upper(words[at]) != "OF") return true;
  for (++at; at < words.size() && upper(words[at]) != "ON"; ++at) {
    const std::string name = upper(words[at]);
    if (std::ranges::any_of(columns, [&](const auto& column) { return upper(column) == name; })) {
      return true;
    }
  }
  return false;
}

void check_triggers(Connection& connection, const Mapping& mapping, Findings& findings) {
  Query list(connection.database(),
             "SELECT name, sql FROM main.sqlite_schema WHERE type = 'trigger' "
             "AND lower(tbl_name) = lower(?)");
  auto rows = list.rows(mapping.table);
  while (rows.next()) {
    if (!fires_on_update(rows.text(1), written_columns(mapping))) continue;
    findings.push_back(
        {.severity = Severity::warning,
         .code = "update_trigger",
         .what = fmt::format("The trigger {} of {} fires when the relay settles a row.",
                             rows.text(0), mapping.table),
         .why = "It runs once for each delivered event while the relay holds the write lock. If it "
                "fails, the row's state is kept beside the outbox, where the application does not "
                "see it.",
         .fix_kind = FixKind::sql,
         .fix = fmt::format("DROP TRIGGER {};  -- or make it anew with UPDATE OF and only columns "
                            "that the application changes",
                            quoted(rows.text(0)))});
  }
}

}  // namespace outbox::sqlite
