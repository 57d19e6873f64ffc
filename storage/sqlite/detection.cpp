#include "storage/sqlite/detection.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "storage/mapping/presets.h"
#include "storage/sqlite/dialect.h"
#include "storage/sqlite/message_columns.h"
#include "storage/sqlite/schema.h"

namespace outbox::sqlite {
namespace {

constexpr int kExamples = 3;
constexpr std::size_t kPreview = 1024;  // bytes of a payload
constexpr std::uint64_t kShownMax = 1 << 20;
constexpr std::size_t kWaitingMax = 1'000'000;

struct Fit {
  Mapping mapping;
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
  try {
    result.mapping = mapping_of(settings);
    result.columns = count_columns(resolved(result.mapping, columns_of(connection, table)));
    result.mapping = require_outbox(connection, result.mapping);
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

std::uint64_t count_waiting(Connection& connection, const Sql& sql) {
  Query query(connection.database(),
              fmt::format("SELECT count(*) FROM (SELECT 1 FROM {} AS o WHERE {} LIMIT {})",
                          sql.table(), sql.is_open(), kWaitingMax));
  auto rows = query.rows();
  return rows.next() ? static_cast<std::uint64_t>(rows.integer(0)) : 0;
}

std::vector<Message> examples(Connection& connection, const Sql& sql, const Clocks& clocks) {
  std::vector<Message> result;
  MessageColumns columns(connection, sql.mapping(), clocks);
  Query query(
      connection.database(),
      message_sql(sql, {},
                  fmt::format("{} ORDER BY {} LIMIT {}", sql.is_open(), sql.order(), kExamples)));
  // A row too large to be shown must not be loaded for it.
  const ValueLimit limit(connection, kShownMax);
  auto rows = query.rows();
  try {
    while (rows.next()) {
      Message message = columns.read(rows, 0, true);
      message.payload.resize(std::min(message.payload.size(), kPreview));
      result.push_back(std::move(message));
    }
  } catch (const SQLite::Exception& error) {
    if (!is_too_big(error)) throw;
  }
  return result;
}

// In which unit the table's numbers make times of this century. Empty: as the mapping says.
std::string unit_of_times(Connection& connection, const Sql& sql) {
  const std::string& column = sql.mapping().columns.occurred_on;
  if (column.empty()) return {};
  Query query(
      connection.database(),
      fmt::format("SELECT {0} FROM {1} AS o WHERE {0} IS NOT NULL ORDER BY {2} DESC LIMIT 1",
                  sql.column(column), sql.table(), sql.order()));
  auto rows = query.rows();
  if (!rows.next()) return {};
  const std::string sample = rows.text(0);
  const auto fits = [&](TimeFormat format) {
    const auto time = TimeReader(connection, format).read(sample);
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

TableProposal propose(Connection& connection, StoreSettings settings, const Fit& fit,
                      const Clocks& clocks) {
  TableProposal proposal;
  proposal.table = fit.mapping.table;
  proposal.preset = fit.mapping.preset;
  proposal.problem = fit.problem;
  if (!fit.problem.empty()) return proposal;
  const std::string unit = unit_of_times(connection, Sql(connection, fit.mapping));
  if (!unit.empty()) settings.times = unit;
  proposal.times = settings.times;
  settings.table = fit.mapping.table;
  settings.preset = fit.mapping.preset;
  const Sql sql(connection, require_outbox(connection, mapping_of(settings)));
  for (const ColumnChoice& choice : fit.mapping.choices) {
    const std::string& name = fit.mapping.columns.*choice.column;
    if (!name.empty()) proposal.columns.emplace_back(choice.key, name);
  }
  proposal.waiting = count_waiting(connection, sql);
  proposal.examples = examples(connection, sql, clocks);
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
  for (const TableColumn& column : columns_of(connection, table)) names.push_back(column.name);
  if (names.empty()) return proposal;
  proposal.problem = fmt::format(
      "the table {} has what is needed of no preset: name in store.columns what is called "
      "otherwise, with the store.preset that comes nearest; it has {}",
      table, fmt::join(names, ", "));
  return proposal;
}

}  // namespace

std::vector<TableProposal> detect(Connection& connection, const StoreSettings& settings,
                                  const std::string& only, const Clocks& clocks) {
  Transaction snapshot(connection, Transaction::Kind::read);
  const std::vector<std::string> tables =
      only.empty() ? tables_of(connection) : std::vector<std::string>{only};
  std::vector<Fit> fits;
  for (const std::string& table : tables) {
    if (auto found = best_fit(connection, settings, table)) fits.push_back(std::move(*found));
  }
  std::stable_sort(fits.begin(), fits.end(),
                   [](const Fit& one, const Fit& other) { return one.better_than(other); });
  std::vector<TableProposal> proposals;
  for (const Fit& one : fits) {
    proposals.push_back(propose(connection, settings, one, clocks));
  }
  if (proposals.empty() && !only.empty()) proposals.push_back(explain(connection, settings, only));
  snapshot.commit();
  return proposals;
}

}  // namespace outbox::sqlite
