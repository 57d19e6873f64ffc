#include "storage/sqlite/adoption.h"

#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "storage/sqlite/settler.h"
#include "storage/sqlite/side_rows.h"
#include "storage/sqlite/time_reader.h"

namespace outbox::sqlite {
namespace {

constexpr auto kFresh = std::chrono::hours{1};
constexpr int kChunk = 200;  // rows a transaction: the write lock is held briefly
constexpr auto kPause = std::chrono::milliseconds{2};

// Rows that might be sent, and those that are skipped so far, behind place ?2.
std::string open_rows_sql(const Sql& sql) {
  return fmt::format(
      "SELECT {0}, {1}, {2}, r.state FROM {3} {4} WHERE {5} AND {1} > ?2 "
      "AND (r.state IS NULL OR r.state = '{6}') ORDER BY {1} LIMIT ?3",
      sql.row_key(), sql.order(), sql.value(sql.mapping().columns.occurred_on), sql.from_pending(),
      sql.side_row(), sql.is_open(), state::kSkipped);
}

struct OpenRow {
  std::optional<Value> key;
  std::int64_t place = 0;
  std::optional<WallTime> time;
  bool skipped = false;
};

class OpenRows {
 public:
  OpenRows(Connection& connection, const Sql& sql)
      : outbox_(sql.mapping().table),
        times_(connection, sql.mapping().times),
        query_(connection.database(), open_rows_sql(sql)) {}

  // The next ones, in the order of the table.
  std::vector<OpenRow> next() {
    std::vector<OpenRow> result;
    auto rows = query_.rows(outbox_, place_, kChunk);
    while (rows.next()) {
      OpenRow row;
      row.key = rows.value(0);
      row.place = rows.integer(1);
      if (!rows.null(2)) row.time = times_.read(rows.text(2));
      row.skipped = !rows.null(3);
      result.push_back(std::move(row));
    }
    if (!result.empty()) place_ = result.back().place;
    return result;
  }

 private:
  std::string outbox_;
  TimeReader times_;
  Query query_;
  std::int64_t place_ = INT64_MIN;
};

// What decides which rows are to be sent, and as what.
std::string signature(const Mapping& mapping) {
  const Columns& c = mapping.columns;
  const States& s = mapping.states;
  return fmt::format(
      "id={} type={} payload={} status={} processedAt={} pending={} failed={} "
      "processed={} deadLettered={}",
      c.id, c.event_type, c.payload, c.status, c.processed_on, s.pending, s.failed, s.processed,
      s.dead_lettered);
}

std::optional<std::string> adopted_as(Connection& connection, const std::string& outbox) {
  Query find(connection.database(),
             "SELECT value FROM outbox_relay_meta WHERE outbox = ?1 AND name = 'adopted'");
  auto rows = find.rows(outbox);
  return rows.next() ? std::optional(rows.text(0)) : std::nullopt;
}

void write_down(Connection& connection, const Mapping& mapping) {
  Query note(connection.database(),
             "INSERT OR REPLACE INTO outbox_relay_meta (outbox, name, value) "
             "VALUES (?1, 'adopted', ?2)");
  note.run(mapping.table, signature(mapping));
}

std::optional<OpenRow> first_old_row(Connection& connection, const Sql& sql, WallTime now) {
  OpenRows open(connection, sql);
  for (auto rows = open.next(); !rows.empty(); rows = open.next()) {
    for (const OpenRow& row : rows) {
      if (!row.skipped && (!row.time || now - *row.time > kFresh)) return row;
    }
  }
  return std::nullopt;
}

// Writes what the order makes of these rows, where it differs from what was.
class Marker {
 public:
  Marker(Connection& connection, const Sql& sql)
      : outbox_(sql.mapping().table),
        skip_(connection.database(),
              fmt::format("INSERT OR REPLACE INTO outbox_relay_rows (outbox, row_key, state, "
                          "fingerprint) SELECT ?1, ?2, ?3, {} FROM {} AS o WHERE {} = ?2",
                          sql.fingerprint(), sql.table(), sql.row_key())),
        take_in_(connection.database(),
                 "UPDATE outbox_relay_rows SET state = NULL "
                 "WHERE outbox = ?1 AND row_key = ?2 AND state = ?3") {}

  void mark(const OpenRow& row, bool skip) {
    if (!row.key || row.skipped == skip) return;
    (skip ? skip_ : take_in_).run(outbox_, *row.key, std::string(state::kSkipped));
  }

 private:
  std::string outbox_;
  Query skip_;
  Query take_in_;
};

void audit(Connection& connection, const std::string& outbox, const AdoptionOrder& order,
           const AdoptionCount& count, const Clocks& clocks) {
  Query note(connection.database(),
             "INSERT INTO outbox_relay_audit (outbox, at, action, reason) "
             "VALUES (?1, ?2, 'adopt', ?3)");
  note.run(outbox, to_text(clocks.wall()),
           shortened(fmt::format("{} rows taken in, {} skipped: {}", count.taken, count.skipped,
                                 order.reason)));
}

}  // namespace

void pretend_side_rows(Connection& connection) {
  if (connection.database().tableExists("outbox_relay_rows")) return;
  connection.database().exec(
      "CREATE TEMP TABLE outbox_relay_rows (outbox TEXT, row_key, state TEXT, fingerprint, "
      "PRIMARY KEY (outbox, row_key))");
}

void require_adoption(Connection& connection, const Sql& sql, const Clocks& clocks) {
  if (!sql.mapping().foreign()) return;
  const std::string& outbox = sql.mapping().table;
  if (const auto before = adopted_as(connection, outbox)) {
    const std::string now = signature(sql.mapping());
    if (*before == now) return;
    throw Unusable(fmt::format(
        "the columns or states of the table {} in {} are other ones than the relay began with "
        "({}; before: {}), so that rows may be taken for others: name them in store.columns, or "
        "say what is to become of the rows with outbox-relay adopt",
        outbox, connection.path(), now, *before));
  }
  if (const auto old = first_old_row(connection, sql, clocks.wall())) {
    throw Unusable(fmt::format(
        "the table {} in {} holds rows to be sent {}, and this is the first relay on it: say what "
        "is to become of them with outbox-relay adopt --all, --since TIME or --skip-older",
        outbox, connection.path(),
        old->time ? "from " + to_text(*old->time) : std::string("of unknown age")));
  }
  Transaction transaction(connection, Transaction::Kind::write);
  write_down(connection, sql.mapping());
  transaction.commit();
}

AdoptionCount adopt(Connection& connection, const Sql& sql, const AdoptionOrder& order,
                    const Clocks& clocks) {
  const std::string& outbox = sql.mapping().table;
  AdoptionCount count;
  OpenRows open(connection, sql);
  Marker marker(connection, sql);
  const auto is_skipped = [&](const OpenRow& row) {
    if (!order.since) return false;
    return row.time ? *row.time < *order.since : order.skip_unknown;
  };
  while (true) {
    // Looking may take long where no index helps: not under the write lock.
    Transaction snapshot(connection, Transaction::Kind::read);
    const std::vector<OpenRow> rows = open.next();
    snapshot.commit();
    for (const OpenRow& row : rows) {
      ++(is_skipped(row) ? count.skipped : count.taken);
      if (!row.time) ++count.unknown;
    }
    if (order.dry_run && rows.empty()) return count;
    if (order.dry_run) continue;
    Transaction transaction(connection, Transaction::Kind::write);
    for (const OpenRow& row : rows) marker.mark(row, is_skipped(row));
    if (rows.empty()) {
      write_down(connection, sql.mapping());
      audit(connection, outbox, order, count, clocks);
    }
    transaction.commit();
    if (rows.empty()) return count;
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace outbox::sqlite
