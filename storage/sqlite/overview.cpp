#include "storage/sqlite/overview.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "storage/sqlite/answered.h"
#include "storage/sqlite/desk.h"
#include "storage/sqlite/dialect.h"
#include "storage/sqlite/identifiers.h"
#include "storage/sqlite/lock_file.h"
#include "storage/sqlite/schema.h"
#include "storage/sqlite/schema_gaps.h"
#include "storage/sqlite/side_rows.h"
#include "storage/sqlite/sql.h"

namespace outbox::sqlite {
namespace {

constexpr auto kPatience = std::chrono::seconds{2};
constexpr int kErrorsMax = 100;

RelaySeen::Life life_of(const Query::Rows& row, const std::string& directory,
                        const Clocks& clocks) {
  const std::string name = row.text(5);
  // A bare name, beside the database wherever that is mounted: never a path out of there.
  if (!name.empty() && name.find('/') == std::string::npos) {
    const std::string path = directory + "/" + name;
    const FileIdentity lock{static_cast<dev_t>(row.integer(6)), static_cast<ino_t>(row.integer(7))};
    if (is_visibly_held(path, lock)) return RelaySeen::Life::alive;
    if (identity_of(path) == lock) return RelaySeen::Life::dead;
  }
  // Without a lock to be seen, only leases that it let run out tell; an idle relay has none.
  const bool this_boot = row.text(3) == clocks.boot_id;
  const bool ended = row.integer(4) > 0 && Time(Duration(row.integer(8))) < clocks.boot->now();
  return this_boot && !ended ? RelaySeen::Life::unknown : RelaySeen::Life::dead;
}

// Of outbox ?1.
constexpr const char* kRelays =
    "SELECT i.instance_name, i.instance_pid, i.started_at, i.boot_id, "
    "(SELECT count(*) FROM outbox_relay_leases AS l WHERE l.outbox = i.outbox "
    "AND l.incarnation = i.incarnation), i.lock_path, i.lock_dev, i.lock_inode, i.lease_until "
    "FROM outbox_relay_incarnations AS i WHERE i.outbox = ?1 ";

RelaySeen relay_of(const Query::Rows& row, const std::string& directory, const Clocks& clocks) {
  return {.host = row.text(0),
          .process = row.integer(1),
          .started_at = row.text(2),
          .leases = static_cast<std::uint64_t>(row.integer(4)),
          .life = life_of(row, directory, clocks)};
}

std::uint32_t count_of(const Query::Rows& row, int index) {
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(row.integer(index), 0, UINT32_MAX));
}

std::string error_columns(const Sql& sql, bool dead) {
  const Columns& c = sql.mapping().columns;
  return fmt::format("{}, {}, {}, {}, {}", sql.column(c.event_type), sql.column(c.id),
                     Desk::either(sql.value(c.retry_count), "retry_count"),
                     Desk::either(sql.value(c.last_error), "error"), dead ? 1 : 0);
}

// Failed rows and dead letters, each by the end of its index where the newest are.
std::string errors_sql(const Sql& sql, const std::string& from, const std::string& where,
                       const std::string& order, bool dead) {
  return fmt::format("SELECT {} FROM {} {} WHERE {} AND r.state IS NULL ORDER BY {} LIMIT {}",
                     error_columns(sql, dead), from, sql.side_row(), where, order, kErrorsMax);
}

// Those whose state is kept beside them.
std::string errors_beside_sql(const Sql& sql, const char* state, bool dead) {
  return fmt::format(
      "SELECT {} FROM {} WHERE r.outbox = ?1 AND r.state IS NOT NULL AND r.state = '{}' "
      "ORDER BY r.due DESC, r.row_key DESC LIMIT {}",
      error_columns(sql, dead), sql.from_side("outbox_relay_rows_state"), state, kErrorsMax);
}

void read_errors(Connection& connection, const Mapping& mapping, const std::string& sql,
                 StoreOverview& overview) {
  Query query(connection.database(), sql);
  auto rows = query.rows(mapping.table);
  while (rows.next()) {
    overview.errors.push_back({.event_type = rows.text(0),
                               .id = rendered_id(rows, 1, mapping.guids),
                               .attempts = count_of(rows, 2),
                               .error = rows.text(3),
                               .dead = rows.integer(4) != 0});
  }
}

void read_all_errors(Connection& connection, const Sql& sql, StoreOverview& overview) {
  const Mapping& mapping = sql.mapping();
  const std::string newest = sql.order() + " DESC";
  const std::string due = mapping.columns.next_attempt;
  const std::string latest = due.empty() ? newest : sql.column(due) + " DESC, " + newest;
  for (const std::string& query :
       {errors_sql(sql, sql.from_failed(), sql.is_failed(), latest, false),
        errors_beside_sql(sql, state::kFailed, false),
        errors_sql(sql, sql.from_dead(), sql.is_dead(), newest, true),
        errors_beside_sql(sql, state::kDeadLettered, true)}) {
    read_errors(connection, mapping, query, overview);
  }
}

}  // namespace

std::vector<RelaySeen> relays_seen(Connection& connection, const std::string& outbox,
                                   const Clocks& clocks) {
  Query query(connection.database(), std::string(kRelays) + "ORDER BY i.started_at DESC");
  const std::string directory = directory_of(connection.path());
  std::vector<RelaySeen> result;
  auto rows = query.rows(outbox);
  while (rows.next()) result.push_back(relay_of(rows, directory, clocks));
  return result;
}

std::optional<RelaySeen> holder_of(Connection& connection, const std::string& outbox,
                                   const Value& key, const Clocks& clocks) {
  Query query(connection.database(),
              std::string(kRelays) +
                  "AND i.incarnation = (SELECT h.incarnation FROM outbox_relay_leases AS h "
                  "WHERE h.outbox = ?1 AND h.row_key = ?2)");
  auto rows = query.rows(outbox, key);
  if (!rows.next()) return std::nullopt;
  return relay_of(rows, directory_of(connection.path()), clocks);
}

void read_orders(Connection& connection, const std::string& outbox, StoreOverview& overview) {
  Query query(connection.database(),
              "SELECT isolated, paused, reason FROM outbox_relay_brokers WHERE outbox = ?1");
  auto rows = query.rows(outbox);
  while (rows.next()) {
    const bool isolated = rows.integer(0) != 0;
    const bool paused = rows.integer(1) != 0;
    overview.isolated = overview.isolated || isolated;
    overview.paused = overview.paused || paused;
    if (isolated || paused) overview.reason = rows.text(2);
  }
}

Answer<StoreOverview> overview_of(const StoreSettings& settings) {
  const std::string path = path_of(settings.url);
  return answered<StoreOverview>(path, [&](StoreOverview& overview) {
    const BootClock boot;
    const Clocks clocks = system_clocks(boot);
    Connection connection(path, kPatience);
    const Mapping mapping = require_outbox(connection, mapping_of(settings));
    prepare_to_look(connection, mapping);
    const Sql sql(connection, mapping);
    Transaction snapshot(connection, Transaction::Kind::read);
    overview.relays = relays_seen(connection, mapping.table, clocks);
    read_orders(connection, mapping.table, overview);
    read_all_errors(connection, sql, overview);
    snapshot.commit();
  });
}

}  // namespace outbox::sqlite
