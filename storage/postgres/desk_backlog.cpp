#include "storage/postgres/desk_backlog.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "storage/mapping/states.h"
#include "storage/mapping/time_forms.h"

namespace outbox::postgres {
namespace {

// By the partial indexes, which are as small as what is unfinished.
std::uint64_t count(Desk& desk, const std::string& where) {
  if (where == "false") return 0;
  Rows rows = ask(desk.connection, fmt::format("SELECT count(*) FROM {} WHERE {}{}",
                                               desk.sql.from(), where, desk.sql.with_key()));
  return rows.next() ? static_cast<std::uint64_t>(rows.integer(0)) : 0;
}

// A state kept beside a row stands for the row's own.
void move_those_beside(Desk& desk, Backlog& backlog) {
  const Sql& sql = desk.sql;
  std::map<std::string, std::uint64_t*> counts{{state::kPending, &backlog.pending},
                                               {state::kFailed, &backlog.failed},
                                               {state::kDeadLettered, &backlog.dead_lettered}};
  Rows rows = ask(desk.connection,
                  fmt::format("SELECT {}, r.state, count(*) FROM {} "
                              "WHERE r.outbox = $1 AND r.state IS NOT NULL GROUP BY 1, 2",
                              sql.state_name(), sql.from_side()),
                  desk.outbox);
  while (rows.next()) {
    const auto number = static_cast<std::uint64_t>(rows.integer(2));
    if (const auto from = counts.find(rows.text(0)); from != counts.end()) {
      *from->second -= std::min(*from->second, number);
    }
    if (const auto to = counts.find(rows.text(1)); to != counts.end()) *to->second += number;
  }
}

void subtract_leases(Desk& desk, Backlog& backlog) {
  const Sql& sql = desk.sql;
  Rows rows = ask(desk.connection,
                  fmt::format("SELECT {}, count(*) FROM {} AS l JOIN {} ON {} = {} {} "
                              "WHERE l.outbox = $1 GROUP BY 1",
                              sql.whole_state(), sql.leases(), sql.from(), sql.row_key(),
                              sql.as_key("l.row_key"), sql.side_row()),
                  desk.outbox);
  while (rows.next()) {
    const auto number = static_cast<std::uint64_t>(rows.integer(1));
    const std::string name = rows.text(0);
    if (name == state::kPending) backlog.pending -= std::min(backlog.pending, number);
    if (name == state::kFailed) backlog.failed -= std::min(backlog.failed, number);
    if (name == state::kPending || name == state::kFailed) backlog.leased += number;
  }
}

// Of the first row in the order of the table that is in this state.
std::optional<Duration> age_of_first(Desk& desk, const std::string& where) {
  const Sql& sql = desk.sql;
  const std::string& column = sql.mapping().columns.occurred_on;
  Rows rows =
      ask(desk.connection,
          fmt::format(
              "SELECT (extract(epoch FROM {0} - {1}) * 1000000)::int8, {2}, {3} "
              "FROM {4} {5} WHERE {6}{10} AND (r.state IS NULL OR r.state IN ('{7}', '{8}')) "
              "ORDER BY {9} LIMIT 1",
              desk.now, sql.time(column), desk.readable(column),
              fmt::format("(extract(epoch FROM {}) * 1000)::int8", desk.now), sql.from(),
              sql.side_row(), where, state::kPending, state::kFailed, sql.order(), sql.with_key()),
          desk.outbox);
  if (!rows.next()) return std::nullopt;
  if (const auto age = rows.maybe_integer(0)) return std::chrono::microseconds(*age);
  const auto time = read_time(rows.text(1), sql.mapping().times);
  if (!time) return std::nullopt;
  return WallTime(std::chrono::milliseconds(rows.integer(2))) - *time;
}

std::optional<Duration> oldest_age(Desk& desk) {
  if (desk.sql.mapping().columns.occurred_on.empty()) return std::nullopt;
  std::optional<Duration> oldest;
  for (const std::string& where : {desk.sql.is_pending(), desk.sql.is_failed()}) {
    if (where == "false") continue;
    const auto age = age_of_first(desk, where);
    if (age) oldest = std::max(oldest.value_or(Duration{0}), std::max(*age, Duration{0}));
  }
  return oldest;
}

void count_dead_types(Desk& desk, Backlog& backlog) {
  if (backlog.dead_lettered == 0) return;
  const Sql& sql = desk.sql;
  const std::string type = sql.text(sql.mapping().columns.event_type);
  Rows rows = ask(desk.connection,
                  fmt::format("SELECT type, count(*) FROM ({}) AS d GROUP BY type ORDER BY type",
                              desk.select_dead(type + " AS type", "true", {})),
                  desk.outbox);
  while (rows.next()) {
    backlog.dead_by_event_type.emplace_back(rows.text(0),
                                            static_cast<std::uint64_t>(rows.integer(1)));
  }
}

}  // namespace

Backlog count_backlog(Desk& desk) {
  const Sql& sql = desk.sql;
  Snapshot snapshot(desk.connection);
  Backlog result;
  result.pending = count(desk, sql.is_pending());
  result.failed = count(desk, sql.is_failed());
  result.dead_lettered = count(desk, sql.is_dead());
  move_those_beside(desk, result);
  subtract_leases(desk, result);
  result.oldest_age = oldest_age(desk);
  count_dead_types(desk, result);
  snapshot.end();
  return result;
}

}  // namespace outbox::postgres
