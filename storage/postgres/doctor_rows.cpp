// The doctor's look at the rows of an outbox, and at those who work on them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "storage/mapping/findings.h"
#include "storage/mapping/time_forms.h"
#include "storage/postgres/adoption.h"
#include "storage/postgres/candidates.h"
#include "storage/postgres/desk.h"
#include "storage/postgres/doctor.h"
#include "storage/postgres/doctor_checks.h"
#include "storage/postgres/overview.h"
#include "storage/postgres/row_reader.h"
#include "storage/postgres/schema.h"

namespace outbox::postgres {
namespace {

constexpr int kRowsRead = 20;
constexpr double kSortedFew = 1000;  // rows that may be put in order each turn
constexpr std::int64_t kLargeTable = 10'000;
constexpr std::size_t kNamed = 5;  // values that one finding names
constexpr int kLookLimit = 2000;   // milliseconds

// One look at a table of any size, in a read-only transaction: it must not take long. `walks`: it
// reads all rows anyway.
template <class Look>
void with_limit(Connection& connection, const char* about, Findings& findings, bool walks,
                const Look& look) {
  connection.begin_work();
  try {
    Transaction transaction(connection, Transaction::Kind::read);
    connection.command(fmt::format("SET LOCAL statement_timeout = {}", kLookLimit));
    if (walks) connection.command("SET LOCAL enable_seqscan = on");
    look();
    transaction.commit();
  } catch (const ServerError& error) {
    if (error.state != "57014") throw;  // the statement was cancelled
    findings.push_back(
        {.severity = Severity::information,
         .code = "not_checked",
         .what = fmt::format("Looking for {} took too long and was given up.", about),
         .why = "The table is large; everything else was looked at."});
  }
}

// Taking such rows in: those with these states, written as SQL, or none.
std::string take_in_sql(const Sql& sql, const std::vector<std::string>& states, bool with_null) {
  const Columns& c = sql.mapping().columns;
  const std::string status = quoted(c.status);
  std::string which;
  if (!states.empty()) which = fmt::format("{} IN ({})", status, fmt::join(states, ", "));
  if (with_null) which += fmt::format("{}{} IS NULL", which.empty() ? "" : " OR ", status);
  const std::string unsent =
      c.processed_on.empty() ? "" : fmt::format(" AND {} IS NULL", quoted(c.processed_on));
  return fmt::format("UPDATE {} SET {} = {} WHERE ({}){};  -- if they are to go out",
                     sql.table().qualified(), status,
                     sql.state_literal(sql.mapping().states.pending), which, unsent);
}

void check_states(Connection& connection, const Sql& sql, Findings& findings) {
  const std::string name_of_status = sql.mapping().columns.status;
  if (name_of_status.empty()) return;
  Rows rows = ask(connection,
                  fmt::format("SELECT quote_nullable({0}::text), count(*), {0} IS NULL FROM {1} "
                              "WHERE {2} IS NULL GROUP BY {0} ORDER BY 2 DESC LIMIT {3}",
                              sql.column(name_of_status), sql.from(), sql.state_name(), kNamed));
  std::vector<std::string> seen;
  std::vector<std::string> names;
  bool with_null = false;
  while (rows.next()) {
    seen.push_back(fmt::format("{} ({})", rows.text(0), rows.integer(1)));
    if (rows.boolean(2)) {
      with_null = true;
    } else {
      names.push_back(rows.text(0));
    }
  }
  if (seen.empty()) return;
  findings.push_back(
      {.severity = Severity::warning,
       .code = "unknown_state",
       .what = fmt::format("Rows of {} have states that the relay does not know: {}.", sql.outbox(),
                           fmt::join(seen, ", ")),
       .why = "It leaves such rows alone: they are never delivered.",
       .fix_kind = FixKind::sql,
       .fix = take_in_sql(sql, names, with_null)});
}

// Reads the next rows as the relay would, without their payloads.
void check_next_rows(Connection& connection, const Sql& sql, Findings& findings) {
  SideRows side_rows(connection, sql);
  RowReader reader(connection, sql, side_rows);
  Rows rows = ask(connection, fmt::format("SELECT {} FROM {} WHERE {}{} ORDER BY {} LIMIT {}",
                                          sql.key_text(), sql.from(), sql.is_pending(),
                                          sql.with_key(), sql.order(), kRowsRead));
  std::vector<Picked> next;
  while (rows.next()) {
    Picked picked;
    picked.key = rows.text(0);
    next.push_back(std::move(picked));
  }
  std::string named;
  std::size_t broken = 0;
  const auto messages = reader.load(next, 0, 0, ServerTime{});
  for (const Message& message : messages) {
    if (!message.defect) continue;
    if (++broken > kNamed) continue;
    named += fmt::format("{}'{}' ({})", named.empty() ? "" : ", ", message.id, *message.defect);
  }
  if (broken == 0) return;
  findings.push_back({.severity = Severity::warning,
                      .code = "broken_rows",
                      .what = fmt::format("{} of the next {} can't be turned into messages: {}.",
                                          broken, counted(messages.size(), "row"), named),
                      .why = "Each becomes a dead letter, invalid_row, when its turn comes.",
                      .fix = "Correct the rows, and the application that writes them."});
}

void check_newest(Connection& connection, const Sql& sql, Findings& findings) {
  const std::string& column = sql.mapping().columns.occurred_on;
  if (column.empty()) return;
  Rows rows =
      ask(connection,
          fmt::format("SELECT {}, {}::text, clock_timestamp() FROM {} ORDER BY {} LIMIT 1",
                      sql.time(column), sql.column(column), sql.from(), sql.order_descending()));
  if (!rows.next()) return;
  std::optional<WallTime> newest;
  if (const auto time = rows.maybe_time(0)) {
    newest = std::chrono::floor<std::chrono::milliseconds>(*time);
  } else {
    newest = read_time(rows.text(1), sql.mapping().times);
  }
  if (!newest) return;
  const auto now = std::chrono::floor<std::chrono::milliseconds>(rows.time(2));
  if (auto finding = judge_clock(*newest, now, "the server's")) {
    findings.push_back(std::move(*finding));
  }
}

// Counts no further than it must.
bool is_large(Connection& connection, const Sql& sql) {
  Rows count = ask(connection, fmt::format("SELECT count(*) FROM (SELECT 1 FROM {} LIMIT {}) AS o",
                                           sql.from(), kLargeTable));
  return count.next() && count.integer(0) == kLargeTable;
}

bool is_scan(const nlohmann::json& step, const std::string& table) {
  return step.value("Relation Name", "") == table;
}

bool any_inner(const nlohmann::json& step, const std::function<bool(const nlohmann::json&)>& is) {
  return step.contains("Plans") && std::any_of(step["Plans"].begin(), step["Plans"].end(), is);
}

// Whether rows of the table come out of this step in any number.
bool is_unbounded(const nlohmann::json& step, const std::string& table) {
  if (step.value("Node Type", "") == "Limit") return false;
  return is_scan(step, table) ||
         any_inner(step, [&](const nlohmann::json& inner) { return is_unbounded(inner, table); });
}

// A step of a plan that reads rows of that table and throws most of them away: all of the table, or
// all of an index whose order is wanted but which knows nothing of states; or that puts all that
// are undecided in order to take the first few.
bool step_reads_all(const nlohmann::json& step, const std::string& table) {
  const std::string kind = step.value("Node Type", "");
  if (is_scan(step, table)) {
    if (kind == "Seq Scan") return true;
    const bool by_index = kind == "Index Scan" || kind == "Index Only Scan";
    if (by_index && step.contains("Filter") && !step.contains("Index Cond")) return true;
  }
  const bool many = step.value("Plan Rows", 0.0) > kSortedFew;
  if (kind == "Sort" && many && is_unbounded(step, table)) return true;
  return any_inner(step, [&](const nlohmann::json& inner) { return step_reads_all(inner, table); });
}

template <class... Values>
std::string plan_of(Connection& connection, const std::string& sql, const Values&... values) {
  Rows rows = ask(connection, "EXPLAIN (FORMAT JSON) " + sql, values...);
  return rows.next() ? rows.text(0) : "";
}

void add_plan(Connection& connection, const Sql& sql, Findings& findings) {
  const bool large = is_large(connection, sql);
  Finding finding{
      .severity = large ? Severity::warning : Severity::information,
      .code = "query_plan",
      .what = fmt::format("To find the rows that are due, PostgreSQL reads all of {}{}.",
                          sql.outbox(), large ? ", which is large" : ""),
      .why = "Each turn of the relay takes longer with every delivered row that is kept.",
      .fix = "Create the indexes that the findings above name, then run ANALYZE on the table."};
  for (const SchemaPart& part : foreign_index_parts(sql.table())) {
    finding.fix_kind = FixKind::sql;
    finding.fix = part.statement;
  }
  findings.push_back(std::move(finding));
}

// Of a foreign table, which has no such index by itself.
void check_key_index(Connection& connection, const Sql& sql, Findings& findings) {
  const std::string& key = sql.mapping().columns.ordering_key;
  if (!sql.mapping().foreign || key.empty()) return;
  const std::string plan = plan_of(
      connection, fmt::format("SELECT {} FROM {} WHERE {} = (SELECT max({}) FROM {} AS k) AND {}",
                              sql.row_key(), sql.from(), sql.column(key), quoted(key),
                              sql.table().qualified(), sql.is_open()));
  if (!reads_all(plan, sql.outbox())) return;
  const std::string where = sql.is_open("");
  findings.push_back(
      {.severity = Severity::information,
       .code = "key_index_missing",
       .what = fmt::format("{} has no index of undecided rows by {}.", sql.outbox(), key),
       .why = "With relay.ordering: key the relay asks for the rows of each key, and reads the "
              "whole table for it.",
       .fix_kind = FixKind::sql,
       .fix = fmt::format("CREATE INDEX {}{} ON {} ({}, {}){};", sql.table().concurrently(),
                          quoted(index_names(sql.mapping()).open_key), sql.table().qualified(),
                          quoted(key), quoted(sql.mapping().order),
                          where == "true" ? "" : " WHERE " + where)});
}

}  // namespace

bool reads_all(const std::string& plan, const std::string& table) {
  const auto parsed = nlohmann::json::parse(plan, nullptr, false);
  if (!parsed.is_array() || parsed.empty() || !parsed[0].contains("Plan")) return false;
  return step_reads_all(parsed[0]["Plan"], table);
}

void check_rows(Connection& connection, const Sql& sql, Findings& findings) {
  with_limit(connection, "rows with unknown states", findings, true,
             [&] { check_states(connection, sql, findings); });
  with_limit(connection, "broken rows", findings, false,
             [&] { check_next_rows(connection, sql, findings); });
  with_limit(connection, "the newest event", findings, false,
             [&] { check_newest(connection, sql, findings); });
}

// With the settings of a turn, in which whole tables are only read if nothing else is possible.
void check_plan(Connection& connection, const Sql& sql, Findings& findings) {
  if (sql.mapping().stateless) return;  // no index could tell which rows are open
  with_limit(connection, "the plan of a lease", findings, false, [&] {
    check_key_index(connection, sql, findings);
    const std::string plan =
        plan_of(connection, fresh_rows_sql(sql), sql.outbox(), ServerTime{}, kRowsRead);
    if (reads_all(plan, sql.outbox())) {
      add_plan(connection, sql, findings);
    }
  });
}

void check_adoption(Connection& connection, const Sql& sql, Findings& findings) {
  if (!sql.mapping().foreign) return;
  connection.begin_work();
  const Adopted before = adopted(connection, sql);
  if (before.answer == Adopted::Answer::yes) return;
  if (before.answer == Adopted::Answer::as_another) {
    findings.push_back(adopted_as_another(sql.outbox(), before.difference));
    return;
  }
  const AdoptionCount count = count_old_rows(connection, sql, kServerNow);
  if (count.skipped > 0) {
    findings.push_back(not_adopted(sql.outbox(), count.skipped, count.unknown > 0));
  }
}

void check_relays(Connection& connection, const Sql& sql, Findings& findings) {
  with_limit(connection, "relays", findings, false, [&] {
    if (auto finding = judge_relays(relays_seen(connection, sql, kServerNow))) {
      findings.push_back(std::move(*finding));
    }
    StoreOverview orders;
    read_orders(connection, sql, orders);
    for (Finding& finding : judge_orders(orders)) findings.push_back(std::move(finding));
  });
}

}  // namespace outbox::postgres
