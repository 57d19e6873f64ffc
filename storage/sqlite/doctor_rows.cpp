// The doctor's look at the rows of an outbox, and at those who work on them.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "storage/mapping/findings.h"
#include "storage/sqlite/adoption.h"
#include "storage/sqlite/doctor.h"
#include "storage/sqlite/doctor_checks.h"
#include "storage/sqlite/lock_file.h"
#include "storage/sqlite/overview.h"
#include "storage/sqlite/row_reader.h"
#include "storage/sqlite/selector.h"
#include "storage/sqlite/sql.h"
#include "storage/sqlite/sqlite_desk.h"

namespace outbox::sqlite {
namespace {

constexpr std::size_t kRowsRead = 20;
constexpr std::int64_t kLargeTable = 10'000;
constexpr std::size_t kNamed = 5;  // values that one finding names
constexpr auto kLookLimit = std::chrono::seconds{2};

// Ends a statement that takes too long: a snapshot held for minutes would do harm.
class TimeLimit {
 public:
  explicit TimeLimit(Connection& connection)
      : handle_(connection.database().getHandle()),
        end_(std::chrono::steady_clock::now() + kLookLimit) {
    sqlite3_progress_handler(handle_, kSteps, &TimeLimit::is_over, this);
  }
  ~TimeLimit() { sqlite3_progress_handler(handle_, 0, nullptr, nullptr); }
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;

 private:
  static constexpr int kSteps = 10'000;
  static int is_over(void* self) {
    return std::chrono::steady_clock::now() > static_cast<TimeLimit*>(self)->end_ ? 1 : 0;
  }
  sqlite3* handle_;
  std::chrono::steady_clock::time_point end_;
};

bool is_interrupt(const SQLite::Exception& error) {
  return (error.getErrorCode() & 0xff) == SQLITE_INTERRUPT;
}

// Runs one look at a table of any size.
template <class Look>
void with_limit(Connection& connection, const char* about, Findings& findings, const Look& look) {
  try {
    const TimeLimit limit(connection);
    look();
  } catch (const SQLite::Exception& error) {
    if (!is_interrupt(error)) throw;
    findings.push_back(
        {.severity = Severity::information,
         .code = "not_checked",
         .what = fmt::format("Looking for {} took too long and was given up.", about),
         .why = "The table is large; everything else was looked at."});
  }
}

// Sets their state, but for those that were sent as far as the table tells.
std::string take_in_sql(const Sql& sql, const std::vector<std::string>& states, bool with_null) {
  const Columns& c = sql.mapping().columns;
  const std::string status = quoted(c.status);
  std::string which;
  if (!states.empty()) which = fmt::format("{} IN ({})", status, fmt::join(states, ", "));
  if (with_null) which += fmt::format("{}{} IS NULL", which.empty() ? "" : " OR ", status);
  const std::string unsent =
      c.processed_on.empty() ? "" : fmt::format(" AND {} IS NULL", quoted(c.processed_on));
  return fmt::format("UPDATE {} SET {} = {} WHERE ({}){};  -- if they are to go out", sql.table(),
                     status, sql.state_literal(sql.mapping().states.pending), which, unsent);
}

void check_states(Connection& connection, const Sql& sql, Findings& findings) {
  const std::string name_of_status = sql.mapping().columns.status;
  if (name_of_status.empty()) return;
  Query query(connection.database(),
              fmt::format("SELECT quote({0}), count(*), {0} IS NULL FROM {1} AS o "
                          "WHERE {2} IS NULL GROUP BY 1 ORDER BY 2 DESC LIMIT {3}",
                          sql.column(name_of_status), sql.table(), sql.state_name(), kNamed));
  std::vector<std::string> seen;
  std::vector<std::string> names;
  bool with_null = false;
  auto rows = query.rows();
  while (rows.next()) {
    seen.push_back(fmt::format("{} ({})", rows.text(0), rows.integer(1)));
    if (rows.integer(2) != 0) {
      with_null = true;
    } else {
      names.push_back(rows.text(0));
    }
  }
  if (seen.empty()) return;
  findings.push_back(
      {.severity = Severity::warning,
       .code = "unknown_state",
       .what = fmt::format("Rows of {} have states that the relay does not know: {}.",
                           sql.mapping().table, fmt::join(seen, ", ")),
       .why = "It leaves such rows alone: they are never delivered.",
       .fix_kind = FixKind::sql,
       .fix = take_in_sql(sql, names, with_null)});
}

void check_keys(Connection& connection, const Sql& sql, Findings& findings) {
  Query query(connection.database(),
              fmt::format("SELECT count(*) FROM {} AS o WHERE {} AND NOT ({})", sql.table(),
                          sql.is_open(), sql.has_key()));
  auto rows = query.rows();
  if (!rows.next() || rows.integer(0) == 0) return;
  const auto number = static_cast<std::uint64_t>(rows.integer(0));
  const std::string& key = sql.mapping().row_key();
  findings.push_back(
      {.severity = Severity::warning,
       .code = "unkeyed_rows",
       .what = fmt::format("{} of {} to be sent {} no {}, or a fraction.", counted(number, "row"),
                           sql.mapping().table, number == 1 ? "has" : "have", key),
       .why = "The relay can't name such rows, and leaves them alone: they are never delivered.",
       .fix =
           fmt::format("Give each of them a {} that is a text, a whole number or a blob.", key)});
}

LeaseRequest next_rows() {
  LeaseRequest request;
  request.limit = kRowsRead;
  request.retry_limit = kRowsRead;
  request.bytes = UINT64_MAX / 2;
  return request;
}

// Reads the next rows as the relay would, without their payloads.
void check_next_rows(Connection& connection, const Sql& sql, const std::string& outbox,
                     const Clocks& clocks, Findings& findings) {
  Selector selector(connection, sql, outbox);
  SideRows side_rows(connection, outbox, clocks);
  RowReader reader(connection, sql, outbox, side_rows, clocks);
  Scene scene;
  scene.limit = kRowsRead;
  scene.now = clocks.boot->now();
  scene.wall = clocks.wall();
  const Selection selection = selector.select(next_rows(), scene);
  const Loaded loaded = reader.load(selection.rows, 0, 0);
  std::string named;
  std::size_t broken = 0;
  for (const Message& message : loaded.messages) {
    if (!message.defect) continue;
    if (++broken > kNamed) continue;
    named += fmt::format("{}'{}' ({})", named.empty() ? "" : ", ", message.id, *message.defect);
  }
  if (broken == 0) return;
  findings.push_back({.severity = Severity::warning,
                      .code = "broken_rows",
                      .what = fmt::format("{} of the next {} can't be turned into messages: {}.",
                                          broken, counted(loaded.messages.size(), "row"), named),
                      .why = "Each becomes a dead letter, invalid_row, when its turn comes.",
                      .fix = "Correct the rows, and the application that writes them."});
}

void check_newest(Connection& connection, const Sql& sql, const Clocks& clocks,
                  Findings& findings) {
  if (sql.mapping().columns.occurred_on.empty()) return;
  Query query(connection.database(),
              fmt::format("SELECT {} FROM {} AS o ORDER BY {} DESC LIMIT 1",
                          sql.column(sql.mapping().columns.occurred_on), sql.table(), sql.order()));
  TimeReader times(connection, sql.mapping().times);
  auto rows = query.rows();
  if (!rows.next()) return;
  const auto newest = times.read(rows.text(0));
  if (!newest) return;
  if (auto finding = judge_clock(*newest, clocks.wall())) findings.push_back(std::move(*finding));
}

// The statements that this connection has prepared and that read the outbox.
std::set<std::string> prepared_statements(Connection& connection, const std::string& table) {
  std::set<std::string> result;
  sqlite3* handle = connection.database().getHandle();
  for (sqlite3_stmt* statement = sqlite3_next_stmt(handle, nullptr); statement != nullptr;
       statement = sqlite3_next_stmt(handle, statement)) {
    const char* sql = sqlite3_sql(statement);
    if (sql == nullptr || sqlite3_stmt_readonly(statement) == 0) continue;
    if (std::string(sql).find(table) != std::string::npos) result.insert(sql);
  }
  return result;
}

// Whether SQLite would read the whole outbox for this statement: a scan without an index, or by
// the row's own number, which is the same in disguise.
bool scans_outbox(Connection& connection, const std::string& sql) {
  Query plan(connection.database(), "EXPLAIN QUERY PLAN " + sql);
  auto rows = plan.rows();
  while (rows.next()) {
    const std::string step = rows.text(3);
    const bool by_index = step.find("INDEX") != std::string::npos;
    if (step.starts_with("SCAN o") && !by_index) return true;
    if (step.starts_with("SEARCH o USING INTEGER PRIMARY KEY (rowid>")) return true;
  }
  return false;
}

// The heart of what a turn asks, for a table that has no indexes of ours.
std::string fresh_rows(const Sql& sql) {
  return fmt::format("SELECT {0} FROM {1} WHERE {2} AND {3} > ?1 ORDER BY {3} LIMIT ?2",
                     sql.row_key(), sql.from_pending(), sql.is_pending(), sql.order());
}

// Counts no further than it must.
std::int64_t rows_up_to_large(Connection& connection, const std::string& table) {
  Query count(connection.database(),
              fmt::format("SELECT count(*) FROM (SELECT 1 FROM {} LIMIT {})", table, kLargeTable));
  auto rows = count.rows();
  return rows.next() ? rows.integer(0) : 0;
}

// Of a foreign table, which has no such index by itself.
void check_key_index(const Sql& sql, Selector& selector, Findings& findings) {
  LeaseRequest ordered = next_rows();
  ordered.ordering = Ordering::key;
  if (!sql.mapping().foreign || !selector.obstacle(ordered)) return;
  findings.push_back({.severity = Severity::information,
                      .code = "key_index_missing",
                      .what = fmt::format("{} has no index of undecided rows by {}.",
                                          sql.mapping().table, sql.mapping().columns.ordering_key),
                      .why = "With relay.ordering: key the relay refuses so large a table without.",
                      .fix_kind = FixKind::sql,
                      .fix = sql.create_key_index()});
}

bool is_held(const std::string& path) {
  const auto identity = identity_of(path);
  return identity && is_visibly_held(path, *identity);
}

// Lock files of relays that ended without a good-bye and stand in no table any more.
void check_lock_files(Connection& connection, Findings& findings) {
  const std::string start = file_name_of(connection.path()) + "-relay-";
  Query named(connection.database(),
              "SELECT 1 FROM outbox_relay_incarnations WHERE lock_path = ?1 LIMIT 1");
  std::vector<std::string> stale;
  std::error_code ignored;
  for (const auto& entry :
       std::filesystem::directory_iterator(directory_of(connection.path()), ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(start) || !name.ends_with(".lock")) continue;
    auto rows = named.rows(name);
    if (!rows.next() && !is_held(entry.path().string())) stale.push_back(entry.path().string());
  }
  if (stale.empty()) return;
  std::string command = "rm --";
  for (const std::string& path : stale) command += " '" + path + "'";
  findings.push_back({.severity = Severity::information,
                      .code = "stale_lock_files",
                      .what = fmt::format("{} of relays that are gone {} beside {}.",
                                          counted(stale.size(), "lock file"),
                                          stale.size() == 1 ? "lies" : "lie", connection.path()),
                      .why = "They do no harm.",
                      .fix_kind = FixKind::command,
                      .fix = command});
}

}  // namespace

void check_rows(Connection& connection, const Mapping& mapping, const Clocks& clocks,
                Findings& findings) {
  const Sql sql(connection, mapping);
  with_limit(connection, "rows with unknown states", findings,
             [&] { check_states(connection, sql, findings); });
  with_limit(connection, "rows without a key", findings,
             [&] { check_keys(connection, sql, findings); });
  with_limit(connection, "broken rows", findings,
             [&] { check_next_rows(connection, sql, mapping.table, clocks, findings); });
  with_limit(connection, "the newest event", findings,
             [&] { check_newest(connection, sql, clocks, findings); });
}

void check_adoption(Connection& connection, const Mapping& mapping, const Clocks& clocks,
                    Findings& findings) {
  if (!mapping.foreign) return;
  const Adopted before = adopted(connection, mapping);
  if (before.answer == Adopted::Answer::yes) return;
  if (before.answer == Adopted::Answer::as_another) {
    findings.push_back(adopted_as_another(mapping.table, before.difference));
    return;
  }
  AdoptionOrder order;
  order.since = clocks.wall() - kFreshAge;
  order.skip_unknown = true;
  order.dry_run = true;
  with_limit(connection, "old rows", findings, [&] {
    const Sql sql(connection, mapping);
    const AdoptionCount count = adopt(connection, sql, order, clocks);
    if (count.skipped > 0) {
      findings.push_back(not_adopted(mapping.table, count.skipped, count.unknown > 0));
    }
  });
}

void check_plan(Connection& connection, const Mapping& mapping, Findings& findings) {
  const Sql sql(connection, mapping);
  Selector selector(connection, sql, mapping.table);
  check_key_index(sql, selector, findings);
  if (mapping.stateless) return;  // no index could tell which rows are open
  const auto statements = mapping.foreign ? std::set<std::string>{fresh_rows(sql)}
                                          : prepared_statements(connection, sql.table());
  const bool scans = std::ranges::any_of(
      statements, [&](const std::string& one) { return scans_outbox(connection, one); });
  if (!scans) return;
  const bool large = rows_up_to_large(connection, sql.table()) == kLargeTable;
  Finding finding{
      .severity = large ? Severity::warning : Severity::information,
      .code = "query_plan",
      .what = fmt::format("To find the rows that are due, SQLite reads all of {}{}.", mapping.table,
                          large ? ", which is large" : ""),
      .why = "Each turn of the relay takes longer with every delivered row that is kept.",
      .fix =
          "Create the indexes that the findings above name, then run ANALYZE if it was ever "
          "run."};
  if (mapping.foreign) {
    finding.fix_kind = FixKind::sql;
    finding.fix = sql.create_pending_index();
  }
  findings.push_back(std::move(finding));
}

void check_relays(Connection& connection, const std::string& outbox, const Clocks& clocks,
                  Findings& findings) {
  const std::vector<RelaySeen> relays = relays_seen(connection, outbox, clocks);
  if (auto finding = judge_relays(relays)) findings.push_back(std::move(*finding));
  check_lock_files(connection, findings);
  StoreOverview orders;
  read_orders(connection, outbox, orders);
  std::ranges::copy(judge_orders(orders), std::back_inserter(findings));
}

}  // namespace outbox::sqlite
