#include "storage/postgres/detection.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "storage/mapping/time_forms.h"
#include "storage/postgres/desk.h"
#include "storage/postgres/row_reader.h"
#include "storage/postgres/schema.h"

namespace outbox::postgres {
namespace {

constexpr int kExamples = 3;
constexpr std::size_t kPreview = 1024;  // bytes of a payload
constexpr std::uint64_t kShownMax = 1 << 20;
constexpr std::int64_t kWaitingMax = 1'000'000;

struct Fit {
  StoreSettings settings;
  std::optional<Table> table;
  std::size_t columns = 0;  // of the preset that the table has; 0: it lacks some that it needs
  std::string problem;      // why the table can't be used so

  bool better_than(const Fit& other) const {
    return std::pair(problem.empty(), columns) > std::pair(other.problem.empty(), other.columns);
  }
};

std::size_t count_columns(const Mapping& mapping) {
  return static_cast<std::size_t>(
      std::count_if(mapping.choices.begin(), mapping.choices.end(),
                    [&](const auto& choice) { return !(mapping.columns.*choice.column).empty(); }));
}

Fit fit(Connection& connection, StoreSettings settings, const std::string& table,
        const std::string& preset) {
  Fit result;
  settings.table = table;
  settings.preset = preset;
  result.settings = settings;
  try {
    const Found found = find_table(connection, table_name(table));
    result.columns =
        count_columns(resolve(mapping_of(settings), columns_of(connection, found.oid)));
    result.table = require_outbox(connection, settings);
  } catch (const std::exception& error) {
    result.problem = error.what();
  }
  return result;
}

// The preset that the table can be used with, and of which it has most; else the one of which it
// has all columns that are needed.
std::optional<Fit> best_fit(Connection& connection, const StoreSettings& settings,
                            const std::string& table) {
  std::optional<Fit> best;
  for (const std::string& preset : preset_names()) {
    Fit candidate = fit(connection, settings, table, preset);
    if (candidate.columns == 0) continue;
    if (!best || candidate.better_than(*best)) best = std::move(candidate);
  }
  return best;
}

// As store.table has it: with its schema where the search path does not find it.
std::vector<std::string> tables_of(Connection& connection) {
  Rows rows = ask(
      connection,
      "SELECT pg_catalog.pg_table_is_visible(c.oid), n.nspname::text, c.relname::text "
      "FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace "
      "WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND n.nspname NOT LIKE 'pg\\_%' "
      "AND n.nspname <> 'information_schema' AND c.relname NOT LIKE 'outbox\\_relay\\_%' "
      "AND pg_catalog.has_schema_privilege(n.oid, 'USAGE') "
      "AND pg_catalog.has_table_privilege(c.oid, 'SELECT') ORDER BY 2, 3");
  std::vector<std::string> names;
  const auto part = [](const std::string& name) {
    return name.find('.') == std::string::npos ? name : quoted(name);
  };
  while (rows.next()) {
    const std::string table = part(rows.text(2));
    names.push_back(rows.boolean(0) ? table : part(rows.text(1)) + "." + table);
  }
  return names;
}

std::uint64_t count_waiting(Connection& connection, const Sql& sql) {
  Rows rows =
      ask(connection, fmt::format("SELECT count(*) FROM (SELECT 1 FROM {} WHERE {} LIMIT {}) AS w",
                                  sql.from(), sql.is_open(), kWaitingMax));
  return rows.next() ? static_cast<std::uint64_t>(rows.integer(0)) : 0;
}

bool has_relay_tables(Connection& connection, const Sql& sql) {
  return ask(connection, "SELECT 1 WHERE to_regclass($1::text) IS NOT NULL", sql.rows()).next();
}

// The relay joins rows with those of its own, of which there need not be any yet: then with an
// empty table that is gone with the transaction.
void pretend_relay_rows(Connection& connection) {
  constexpr std::string_view kCreate = "CREATE TABLE IF NOT EXISTS ";
  for (const SchemaPart& part : relay_parts("")) {
    const auto at = part.statement.find(kCreate);
    if (part.name != "outbox_relay_rows" || at == std::string::npos) continue;
    connection.command("CREATE TEMP TABLE " + part.statement.substr(at + kCreate.size()));
  }
}

// The first rows as the relay would send them.
std::vector<Message> examples(Connection& connection, const Sql& sql) {
  std::vector<Message> result;
  Rows rows = ask(connection,
                  fmt::format("SELECT {} FROM {} WHERE {}{} ORDER BY {} LIMIT {}", sql.key_text(),
                              sql.from(), sql.is_open(), sql.with_key(), sql.order(), kExamples));
  std::vector<Picked> picked;
  while (rows.next()) {
    Picked row;
    row.key = rows.text(0);
    picked.push_back(std::move(row));
  }
  Rows now = ask(connection, "SELECT clock_timestamp()");
  const ServerTime time = now.next() ? now.time(0) : ServerTime{};
  SideRows side_rows(connection, sql);
  for (Message& message : RowReader(connection, sql, side_rows).load(picked, 0, kShownMax, time)) {
    message.payload.resize(std::min(message.payload.size(), kPreview));
    result.push_back(std::move(message));
  }
  return result;
}

// None if the role may not make a temporary table.
std::vector<Message> examples_before_init(Connection& connection, Table table) {
  table.relay_schema = "pg_temp";
  const Sql sql(std::move(table));
  try {
    const Transaction undone(connection, Transaction::Kind::write);
    pretend_relay_rows(connection);
    return examples(connection, sql);
  } catch (const Unusable&) {
    return {};
  }
}

// In which unit the table's numbers make times of this century. Empty: as the mapping says.
std::string unit_of_times(Connection& connection, const Sql& sql) {
  const std::string& column = sql.mapping().columns.occurred_on;
  const std::string type = sql.table().type_of(column);
  if (column.empty() || type.starts_with("timestamp") || type == "date") return {};
  Rows rows =
      ask(connection, fmt::format("SELECT {0}::text FROM {1} WHERE {0} IS NOT NULL ORDER BY {2} "
                                  "LIMIT 1",
                                  sql.column(column), sql.from(), sql.order_descending()));
  if (!rows.next()) return {};
  const std::string sample = rows.text(0);
  const auto fits = [&](TimeFormat format) {
    const auto time = read_time(sample, format);
    return time && to_text(*time).starts_with("20");
  };
  if (fits(sql.mapping().times)) return {};
  for (const auto& [format, name] : {std::pair(TimeFormat::seconds, "seconds"),
                                     std::pair(TimeFormat::milliseconds, "milliseconds"),
                                     std::pair(TimeFormat::ticks, "ticks")}) {
    if (fits(format)) return name;
  }
  return {};
}

TableProposal propose(Connection& connection, const Fit& fit) {
  TableProposal proposal;
  proposal.table = fit.settings.table;
  proposal.preset = fit.settings.preset;
  proposal.problem = fit.problem;
  if (!fit.problem.empty()) return proposal;
  StoreSettings settings = fit.settings;
  const std::string unit = unit_of_times(connection, Sql(*fit.table));
  if (!unit.empty()) settings.times = unit;
  proposal.times = settings.times;
  const Sql sql(require_outbox(connection, settings));
  for (const ColumnChoice& choice : sql.mapping().choices) {
    const std::string& name = sql.mapping().columns.*choice.column;
    if (!name.empty()) proposal.columns.emplace_back(choice.key, name);
  }
  proposal.waiting = count_waiting(connection, sql);
  if (has_relay_tables(connection, sql)) {
    proposal.examples = examples(connection, sql);
  } else if (proposal.waiting > 0) {
    proposal.examples = examples_before_init(connection, sql.table());
  }
  return proposal;
}

// What keeps a table from being used under the settings as they are.
TableProposal explain(Connection& connection, const StoreSettings& settings,
                      const std::string& table) {
  TableProposal proposal;
  proposal.table = table;
  proposal.preset = settings.preset;
  proposal.problem = fit(connection, settings, table, settings.preset).problem;
  if (settings.foreign() || proposal.problem.empty()) return proposal;
  std::vector<std::string> names;
  const Found found = find_table(connection, table_name(table));
  for (const TableColumn& column : columns_of(connection, found.oid)) names.push_back(column.name);
  if (names.empty()) return proposal;
  proposal.problem = fmt::format(
      "the table {} has what is needed of no preset: name in store.columns what is called "
      "otherwise, with the store.preset that comes nearest; it has {}",
      table, fmt::join(names, ", "));
  return proposal;
}

}  // namespace

std::vector<TableProposal> detect(Connection& connection, const StoreSettings& settings,
                                  const std::string& only) {
  const std::vector<std::string> tables =
      only.empty() ? tables_of(connection) : std::vector<std::string>{only};
  std::vector<Fit> fits;
  for (const std::string& table : tables) {
    connection.begin_work();
    if (auto found = best_fit(connection, settings, table)) fits.push_back(std::move(*found));
  }
  std::stable_sort(fits.begin(), fits.end(),
                   [](const Fit& one, const Fit& other) { return one.better_than(other); });
  std::vector<TableProposal> proposals;
  for (const Fit& one : fits) {
    connection.begin_work();
    proposals.push_back(propose(connection, one));
  }
  if (proposals.empty() && !only.empty()) proposals.push_back(explain(connection, settings, only));
  return proposals;
}

}  // namespace outbox::postgres
