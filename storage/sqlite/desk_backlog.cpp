#include "storage/sqlite/desk_backlog.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace outbox::sqlite {
namespace {

std::uint64_t count(Desk& desk, const std::string& from, const std::string& where) {
  Query query(desk.connection.database(),
              fmt::format("SELECT count(*) FROM {} WHERE {}", from, where));
  auto rows = query.rows();
  return rows.next() ? static_cast<std::uint64_t>(rows.integer(0)) : 0;
}

// A state kept beside a row stands for the row's own.
void move_those_beside(Desk& desk, Backlog& backlog) {
  const Sql& sql = desk.sql;
  std::map<std::string, std::uint64_t*> counts{{state::kPending, &backlog.pending},
                                               {state::kFailed, &backlog.failed},
                                               {state::kDeadLettered, &backlog.dead_lettered}};
  Query query(desk.connection.database(),
              fmt::format("SELECT {}, r.state, count(*) FROM {} "
                          "WHERE r.outbox = ?1 AND r.state IS NOT NULL GROUP BY 1, 2",
                          sql.state_name(), sql.from_side("")));
  auto rows = query.rows(desk.outbox);
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
  Query query(desk.connection.database(),
              fmt::format("SELECT coalesce(r.state, {0}), count(*) FROM outbox_relay_leases AS l "
                          "JOIN {1} AS o ON {2} = l.row_key {3} WHERE l.outbox = ?1 GROUP BY 1",
                          sql.state_name(), sql.table(), sql.row_key(), sql.side_row()));
  auto rows = query.rows(desk.outbox);
  while (rows.next()) {
    const auto number = static_cast<std::uint64_t>(rows.integer(1));
    const std::string name = rows.text(0);
    if (name == state::kPending) backlog.pending -= std::min(backlog.pending, number);
    if (name == state::kFailed) backlog.failed -= std::min(backlog.failed, number);
    if (name == state::kPending || name == state::kFailed) backlog.leased += number;
  }
}

std::optional<Duration> oldest_age(Desk& desk) {
  const Sql& sql = desk.sql;
  std::optional<WallTime> oldest;
  for (const auto& [from, where] : {std::pair(sql.from_pending(), sql.is_pending()),
                                    std::pair(sql.from_failed(), sql.is_failed())}) {
    Query query(desk.connection.database(),
                fmt::format("SELECT {} FROM {} {} WHERE {} "
                            "AND (r.state IS NULL OR r.state IN ('{}', '{}')) ORDER BY {} LIMIT 1",
                            sql.value(sql.mapping().columns.occurred_on), from, sql.side_row(),
                            where, state::kPending, state::kFailed, sql.order()));
    auto rows = query.rows(desk.outbox);
    if (!rows.next()) continue;
    const auto time = desk.times.read(rows.text(0));
    if (time) oldest = std::min(oldest.value_or(*time), *time);
  }
  if (!oldest) return std::nullopt;
  return std::max<Duration>(desk.clocks.wall() - *oldest, Duration{0});
}

void count_dead_types(Desk& desk, Backlog& backlog) {
  if (backlog.dead_lettered == 0) return;
  const Sql& sql = desk.sql;
  const std::string type = sql.column(sql.mapping().columns.event_type);
  Query query(desk.connection.database(),
              fmt::format("SELECT type, count(*) FROM ({}) GROUP BY type ORDER BY type",
                          sql.select_dead(type + " AS type", "TRUE")));
  auto rows = query.rows(desk.outbox);
  while (rows.next()) {
    backlog.dead_by_event_type.emplace_back(rows.text(0),
                                            static_cast<std::uint64_t>(rows.integer(1)));
  }
}

}  // namespace

Backlog count_backlog(Desk& desk) {
  const Sql& sql = desk.sql;
  Transaction snapshot(desk.connection, Transaction::Kind::read);
  Backlog result;
  result.pending = count(desk, sql.from_pending(), sql.is_pending());
  result.failed = count(desk, sql.from_failed(), sql.is_failed());
  result.dead_lettered = count(desk, sql.from_dead(), sql.is_dead());
  move_those_beside(desk, result);
  subtract_leases(desk, result);
  result.oldest_age = oldest_age(desk);
  count_dead_types(desk, result);
  snapshot.commit();
  return result;
}

}  // namespace outbox::sqlite
