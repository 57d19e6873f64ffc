#include "storage/sqlite/adoption.h"

#include <fmt/format.h>

#include <algorithm>
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

// A transaction marks so many rows, for so long, since it holds the write lock.
constexpr int kChunk = 200;
constexpr auto kWorkMax = std::chrono::milliseconds{2};
constexpr int kRestFactor = 10;  // less than a tenth of the time is ours

// Rows that might be sent, and those that are skipped so far, behind place ?2.
std::string open_rows_sql(const Sql& sql) {
  return fmt::format(
      "SELECT {0}, {1}, {2}, r.state FROM {3} {4} WHERE {5} AND {7} AND {1} > ?2 AND {1} <= ?4 "
      "AND (r.state IS NULL OR r.state = '{6}') ORDER BY {1} LIMIT ?3",
      sql.row_key(), sql.order(), sql.value(sql.mapping().columns.occurred_on), sql.from_open(),
      sql.side_row(), sql.is_open(), state::kSkipped, sql.has_key());
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
        query_(connection.database(), open_rows_sql(sql)) {
    Query newest(connection.database(),
                 fmt::format("SELECT max({}) FROM {} AS o", sql.order(), sql.table()));
    auto rows = newest.rows();
    if (rows.next() && !rows.null(0)) last_ = rows.integer(0);
  }

  // The next ones, in the order of the table, of those that were there when this was made: what the
  // application writes meanwhile is new.
  std::vector<OpenRow> next() {
    std::vector<OpenRow> result;
    auto rows = query_.rows(outbox_, place_, kChunk, last_);
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
  std::int64_t last_ = INT64_MIN;
};

void write_down(Connection& connection, const Mapping& mapping) {
  Query note(connection.database(),
             "INSERT OR REPLACE INTO outbox_relay_meta (outbox, name, value) "
             "VALUES (?1, 'adopted', ?2)");
  note.run(mapping.table, signature_of(mapping));
}

std::optional<OpenRow> first_old_row(Connection& connection, const Sql& sql, WallTime now) {
  OpenRows open(connection, sql);
  for (auto rows = open.next(); !rows.empty(); rows = open.next()) {
    for (const OpenRow& row : rows) {
      if (!row.skipped && (!row.time || now - *row.time > kFreshAge)) return row;
    }
  }
  return std::nullopt;
}

// Writes beside the rows what the order makes of them.
class Marker {
 public:
  Marker(Connection& connection, const Sql& sql, SideRows& side_rows)
      : outbox_(sql.mapping().table),
        side_rows_(side_rows),
        look_(connection.database(),
              fmt::format("SELECT r.state, {} FROM {} AS o {} WHERE {} = ?2 AND {} "
                          "AND l.epoch IS NULL AND (r.state IS NULL OR r.state = '{}')",
                          sql.fingerprint(), sql.table(), sql.beside(), sql.row_key(),
                          sql.is_open(), state::kSkipped)) {}

  // False if the row is not waiting any more: it was looked at without the write lock.
  bool mark(const OpenRow& row, bool skip) {
    if (!row.key) return false;
    bool skipped = false;
    std::uint32_t fingerprint = kAnyFingerprint;
    {
      auto rows = look_.rows(outbox_, *row.key);
      if (!rows.next()) return false;
      skipped = !rows.null(0);
      fingerprint = static_cast<std::uint32_t>(rows.integer(1));
    }
    if (skip == skipped) return true;
    SideRow side = side_rows_.read(*row.key, fingerprint).value_or(SideRow{});
    side.fingerprint = fingerprint;
    side.state = skip ? std::optional<std::string>(state::kSkipped) : std::nullopt;
    side_rows_.write(*row.key, side);
    return true;
  }

 private:
  std::string outbox_;
  SideRows& side_rows_;
  Query look_;
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

// Rows that the relay would leave alone for ever.
std::uint64_t count_others(Connection& connection, const Sql& sql) {
  Query query(connection.database(), fmt::format("SELECT count(*) FROM {} AS o WHERE {} IS NULL",
                                                 sql.table(), sql.state_name()));
  auto rows = query.rows();
  return rows.next() ? static_cast<std::uint64_t>(rows.integer(0)) : 0;
}

}  // namespace

Adopted adopted(Connection& connection, const Mapping& mapping) {
  Query find(connection.database(),
             "SELECT value FROM outbox_relay_meta WHERE outbox = ?1 AND name = 'adopted'");
  auto rows = find.rows(mapping.table);
  if (!rows.next()) return {Adopted::Answer::no, {}};
  return compare_signature(rows.text(0), mapping);
}

void require_adoption(Connection& connection, const Sql& sql, const Clocks& clocks) {
  if (!sql.mapping().foreign) return;
  const std::string& outbox = sql.mapping().table;
  const Adopted before = adopted(connection, sql.mapping());
  if (before.answer == Adopted::Answer::yes) return;
  if (before.answer == Adopted::Answer::as_another)
    throw Unusable(begun_otherwise(outbox, connection.path(), before));
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

void require_adopted(Connection& connection, const Mapping& mapping) {
  require_no_other(connection, mapping);
  if (!mapping.foreign || adopted(connection, mapping).answer == Adopted::Answer::yes) return;
  throw Unusable(fmt::format("no relay has begun on the table {} in {} yet: see outbox-relay adopt",
                             mapping.table, connection.path()));
}

void require_no_other(Connection& connection, const Mapping& mapping) {
  if (!mapping.foreign) return;
  const Adopted before = adopted(connection, mapping);
  if (before.answer == Adopted::Answer::as_another)
    throw Unusable(begun_otherwise(mapping.table, connection.path(), before));
}

AdoptionCount adopt(Connection& connection, const Sql& sql, const AdoptionOrder& order,
                    const Clocks& clocks) {
  using HoldClock = std::chrono::steady_clock;
  const std::string& outbox = sql.mapping().table;
  AdoptionCount count;
  count.others = count_others(connection, sql);
  OpenRows open(connection, sql);
  SideRows side_rows(connection, outbox, clocks);
  Marker marker(connection, sql, side_rows);
  const auto is_skipped = [&](const OpenRow& row) {
    if (!order.since) return false;
    return row.time ? *row.time < *order.since : order.skip_unknown;
  };
  const auto note = [&](const OpenRow& row) {
    ++(is_skipped(row) ? count.skipped : count.taken);
    if (!row.time) ++count.unknown;
  };
  // Looking may take long where no index helps: not under the write lock.
  for (auto rows = open.next(); !rows.empty(); rows = open.next()) {
    if (order.dry_run) {
      std::for_each(rows.begin(), rows.end(), note);
      continue;
    }
    for (auto next = rows.begin(); next != rows.end();) {
      Transaction transaction(connection, Transaction::Kind::write);
      const auto begun = HoldClock::now();
      for (; next != rows.end() && HoldClock::now() - begun < kWorkMax; ++next) {
        if (marker.mark(*next, is_skipped(*next))) note(*next);
      }
      transaction.commit();
      std::this_thread::sleep_for(kRestFactor * (HoldClock::now() - begun));
    }
  }
  if (order.dry_run) return count;
  Transaction transaction(connection, Transaction::Kind::write);
  write_down(connection, sql.mapping());
  audit(connection, outbox, order, count, clocks);
  transaction.commit();
  return count;
}

}  // namespace outbox::sqlite
