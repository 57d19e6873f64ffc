#include "storage/postgres/overview.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "storage/mapping/states.h"
#include "storage/postgres/desk.h"

namespace outbox::postgres {
namespace {

constexpr int kErrorsMax = 100;

// A session under the relay's name is a sign of life. Without one only leases that it let run out
// tell: it may be cut off and still be sending.
std::string relays_sql(const Sql& sql, const std::string& now) {
  return fmt::format(
      "SELECT i.instance_name, i.instance_pid, {}, "
      "(SELECT count(*) FROM {} AS l WHERE l.outbox = i.outbox "
      "AND l.incarnation = i.incarnation), i.lease_until < {}, "
      "EXISTS (SELECT 1 FROM pg_catalog.pg_stat_activity AS a "
      "WHERE a.application_name LIKE 'outbox-relay %' AND strpos(a.application_name, "
      "i.instance_name || ':' || i.instance_pid) > 0) "
      "FROM {} AS i WHERE i.outbox = $1 ",
      rfc3339("i.started_at"), sql.leases(), now, sql.incarnations());
}

RelaySeen relay_of(const Rows& row) {
  RelaySeen relay{.host = row.text(0),
                  .process = row.integer(1),
                  .started_at = row.text(2),
                  .leases = static_cast<std::uint64_t>(row.integer(3)),
                  .life = RelaySeen::Life::unknown};
  if (row.boolean(5)) {
    relay.life = RelaySeen::Life::alive;
  } else if (row.boolean(4)) {
    relay.life = RelaySeen::Life::dead;
  }
  return relay;
}

std::string error_columns(const Desk& desk, bool dead) {
  const Sql& sql = desk.sql;
  const Columns& c = sql.mapping().columns;
  return fmt::format("{}, {}, ({})::int8, {}, {}", sql.text(c.event_type), sql.text(c.id),
                     Desk::either(sql.value(c.retry_count), "retry_count"),
                     Desk::either(sql.text(c.last_error), "error"), dead);
}

// Failed rows and dead letters, each by the end of its index where the newest are.
std::string errors_sql(const Desk& desk, const std::string& where, const std::string& order,
                       bool dead) {
  return fmt::format("SELECT {} FROM {} {} WHERE {} AND r.state IS NULL ORDER BY {} LIMIT {}",
                     error_columns(desk, dead), desk.sql.from(), desk.sql.side_row(), where, order,
                     kErrorsMax);
}

// Those whose state is kept beside them.
std::string errors_beside_sql(const Desk& desk, const char* state, bool dead) {
  return fmt::format(
      "SELECT {} FROM {} WHERE r.outbox = $1 AND r.state IS NOT NULL AND r.state = '{}' "
      "ORDER BY r.due DESC, r.row_key DESC LIMIT {}",
      error_columns(desk, dead), desk.sql.from_side(), state, kErrorsMax);
}

void read_errors(Desk& desk, const std::string& sql, StoreOverview& overview) {
  Rows rows = ask(desk.connection, sql, desk.outbox);
  while (rows.next()) {
    overview.errors.push_back({.event_type = rows.text(0),
                               .id = desk.shown_id(desk.sql.mapping().columns.id, rows.text(1)),
                               .attempts = static_cast<std::uint32_t>(
                                   std::clamp<std::int64_t>(rows.integer(2), 0, UINT32_MAX)),
                               .error = rows.text(3),
                               .dead = rows.boolean(4)});
  }
}

void read_all_errors(Desk& desk, StoreOverview& overview) {
  const Sql& sql = desk.sql;
  const std::string newest = sql.order_descending();
  const std::string due = sql.mapping().columns.next_attempt;
  const std::string latest = due.empty() ? newest : sql.column(due) + " DESC, " + newest;
  if (sql.is_failed() != "false") {
    read_errors(desk, errors_sql(desk, sql.is_failed(), latest, false), overview);
  }
  read_errors(desk, errors_beside_sql(desk, state::kFailed, false), overview);
  if (sql.is_dead() != "false") {
    read_errors(desk, errors_sql(desk, sql.is_dead(), newest, true), overview);
  }
  read_errors(desk, errors_beside_sql(desk, state::kDeadLettered, true), overview);
}

}  // namespace

std::vector<RelaySeen> relays_seen(Connection& connection, const Sql& sql, const std::string& now) {
  std::vector<RelaySeen> result;
  Rows rows = ask(connection, relays_sql(sql, now) + "ORDER BY i.started_at DESC", sql.outbox());
  while (rows.next()) result.push_back(relay_of(rows));
  return result;
}

std::optional<RelaySeen> holder_of(Connection& connection, const Sql& sql, const std::string& key,
                                   const std::string& now) {
  Rows rows = ask(
      connection,
      relays_sql(sql, now) + fmt::format("AND i.incarnation = (SELECT h.incarnation FROM {} AS h "
                                         "WHERE h.outbox = $1 AND h.row_key = $2)",
                                         sql.leases()),
      sql.outbox(), key);
  if (!rows.next()) return std::nullopt;
  return relay_of(rows);
}

void read_orders(Connection& connection, const Sql& sql, StoreOverview& overview) {
  Rows rows =
      ask(connection,
          fmt::format("SELECT isolated, paused, reason FROM {} WHERE outbox = $1", sql.brokers()),
          sql.outbox());
  while (rows.next()) {
    const bool isolated = rows.boolean(0);
    const bool paused = rows.boolean(1);
    overview.isolated = overview.isolated || isolated;
    overview.paused = overview.paused || paused;
    if (isolated || paused) overview.reason = rows.text(2);
  }
}

Answer<StoreOverview> overview_of(const StoreSettings& settings) {
  return answered<StoreOverview>([&](StoreOverview& overview) {
    Desk desk(settings, kServerNow);
    Snapshot snapshot(desk.connection);
    overview.relays = relays_seen(desk.connection, desk.sql, desk.now);
    read_orders(desk.connection, desk.sql, overview);
    read_all_errors(desk, overview);
    snapshot.end();
  });
}

}  // namespace outbox::postgres
