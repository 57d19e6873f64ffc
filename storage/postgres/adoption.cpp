#include "storage/postgres/adoption.h"

#include <fmt/format.h>

#include <optional>
#include <utility>
#include <vector>

#include "storage/mapping/attempt_text.h"
#include "storage/mapping/states.h"
#include "storage/mapping/time_forms.h"
#include "storage/postgres/desk.h"

namespace outbox::postgres {
namespace {

constexpr std::int64_t kChunk = 1000;  // rows in one transaction

struct OpenRow {
  std::string key;
  std::optional<WallTime> time;
  bool skipped = false;
};

// Rows that might be sent, and those that are skipped so far.
class OpenRows {
 public:
  OpenRows(Connection& connection, const Sql& sql) : connection_(connection), sql_(sql) {}

  // The next ones, in the order of the table; none when all have been seen.
  std::vector<OpenRow> next() {
    std::vector<OpenRow> result;
    if (done_) return result;
    const Columns& c = sql_.mapping().columns;
    const std::string from = begun_ ? sql_.rows_from("$3", "$4") : sql_.from();
    const std::string behind = begun_ ? fmt::format(" AND {} <> $5", sql_.key_text()) : "";
    connection_.begin_work();
    Transaction look(connection_, Transaction::Kind::read);
    Rows rows =
        ask(connection_,
            fmt::format("SELECT {}, {}, {}, {}, {}, r.state IS NOT NULL FROM {} {} WHERE {}{}{} "
                        "AND (r.state IS NULL OR r.state = '{}') ORDER BY {} LIMIT $2",
                        sql_.place(), sql_.tie(), sql_.key_text(), sql_.time(c.occurred_on),
                        sql_.text(c.occurred_on), from, sql_.side_row(), sql_.is_open(), behind,
                        sql_.with_key(), state::kSkipped, sql_.order()),
            sql_.outbox(), kChunk, last_.place, last_.tie, last_.key);
    while (rows.next()) {
      OpenRow row{.key = rows.text(2), .time = {}, .skipped = rows.boolean(5)};
      if (const auto time = rows.maybe_time(3)) {
        row.time = std::chrono::floor<std::chrono::milliseconds>(*time);
      } else if (!rows.null(4)) {
        row.time = read_time(rows.text(4), sql_.mapping().times);
      }
      last_ = {rows.integer(0), rows.text(1), row.key};
      result.push_back(std::move(row));
    }
    look.commit();
    begun_ = true;
    done_ = rows.size() < kChunk;
    return result;
  }

 private:
  Connection& connection_;
  const Sql& sql_;
  Position last_;
  bool begun_ = false;
  bool done_ = false;
};

WallTime time_now(Connection& connection, const std::string& now) {
  Rows rows = ask(connection, fmt::format("SELECT ({})::timestamptz", now));
  return rows.next() ? std::chrono::floor<std::chrono::milliseconds>(rows.time(0))
                     : system_wall_time();
}

void write_down(Connection& connection, const Sql& sql) {
  ask(connection,
      fmt::format("INSERT INTO {} (outbox, name, value) VALUES ($1, 'adopted', $2) "
                  "ON CONFLICT (outbox, name) DO UPDATE SET value = excluded.value",
                  sql.meta()),
      sql.outbox(), signature_of(sql.mapping()));
}

// Writes beside the rows what the order makes of them; leaves alone those that are leased or not
// waiting any more. Returns how many there were to write about.
class Marker {
 public:
  Marker(Connection& connection, const Sql& sql)
      : outbox_(sql.outbox()),
        skip_(connection,
              fmt::format("INSERT INTO {} AS s (outbox, row_key, state, fingerprint) "
                          "SELECT $1, {}, '{}', {} FROM {} {} WHERE {} = ANY({}) AND {} "
                          "AND l.epoch IS NULL AND (r.state IS NULL OR r.state = '{}') "
                          "ON CONFLICT (outbox, row_key) DO UPDATE SET state = excluded.state, "
                          "fingerprint = excluded.fingerprint",
                          sql.rows(), sql.key_text(), state::kSkipped, sql.fingerprint(),
                          sql.from(), sql.beside(), sql.row_key(), sql.as_keys("$2"), sql.is_open(),
                          state::kSkipped)),
        take_(connection, fmt::format("UPDATE {} SET state = NULL WHERE outbox = $1 "
                                      "AND row_key = ANY($2) AND state = '{}'",
                                      sql.rows(), state::kSkipped)) {}

  std::int64_t skip(const std::vector<std::string>& keys) { return skip_.run(outbox_, keys); }
  void take(const std::vector<std::string>& keys) { take_.run(outbox_, keys); }

 private:
  std::string outbox_;
  Query skip_;
  Query take_;
};

// Rows that the relay would leave alone for ever. Walks through the whole table.
std::uint64_t count_others(Connection& connection, const Sql& sql) {
  if (sql.mapping().stateless) return 0;
  connection.begin_work();
  Transaction look(connection, Transaction::Kind::read);
  connection.command("SET LOCAL enable_seqscan = on");
  Rows rows = ask(connection, fmt::format("SELECT count(*) FROM {} WHERE {} IS NULL", sql.from(),
                                          sql.state_name()));
  const std::int64_t count = rows.next() ? rows.integer(0) : 0;
  look.commit();
  return static_cast<std::uint64_t>(count);
}

void note_adoption(Connection& connection, const Sql& sql, const AdoptionOrder& order,
                   const AdoptionCount& count, const std::string& now) {
  ask(connection,
      fmt::format("INSERT INTO {} (outbox, at, action, reason) VALUES ($1, {}, 'adopt', $2)",
                  sql.audit(), now),
      sql.outbox(),
      shortened(fmt::format("{} rows taken in, {} skipped: {}", count.taken, count.skipped,
                            order.reason)));
}

bool is_skipped(const OpenRow& row, const AdoptionOrder& order) {
  if (!order.since) return false;
  return row.time ? *row.time < *order.since : order.skip_unknown;
}

// One chunk, in a transaction of its own.
void mark(Connection& connection, Marker& marker, const std::vector<OpenRow>& rows,
          const AdoptionOrder& order) {
  std::vector<std::string> skip;
  std::vector<std::string> take;
  for (const OpenRow& row : rows) {
    const bool skips = is_skipped(row, order);
    if (skips && !row.skipped) skip.push_back(row.key);
    if (!skips && row.skipped) take.push_back(row.key);
  }
  if (skip.empty() && take.empty()) return;
  connection.begin_work();
  Transaction transaction(connection, Transaction::Kind::write);
  if (!skip.empty()) marker.skip(skip);
  if (!take.empty()) marker.take(take);
  transaction.commit();
}

}  // namespace

Adopted adopted(Connection& connection, const Sql& sql) {
  Rows rows =
      ask(connection,
          fmt::format("SELECT value FROM {} WHERE outbox = $1 AND name = 'adopted'", sql.meta()),
          sql.outbox());
  if (!rows.next()) return {Adopted::Answer::no, {}};
  return compare_signature(rows.text(0), sql.mapping());
}

void require_adoption(Connection& connection, const Sql& sql, const std::string& now) {
  if (!sql.mapping().foreign) return;
  const Adopted before = adopted(connection, sql);
  if (before.answer == Adopted::Answer::yes) return;
  if (before.answer == Adopted::Answer::as_another)
    throw Unusable(begun_otherwise(sql.outbox(), connection.label(), before));
  const WallTime fresh = time_now(connection, now) - kFreshAge;
  OpenRows open(connection, sql);
  for (auto rows = open.next(); !rows.empty(); rows = open.next()) {
    for (const OpenRow& row : rows) {
      if (row.skipped || (row.time && *row.time >= fresh)) continue;
      throw Unusable(fmt::format(
          "the table {} in {} holds rows to be sent {}, and this is the first relay on it: say "
          "what is to become of them with outbox-relay adopt --all, --since TIME or --skip-older",
          sql.outbox(), connection.label(),
          row.time ? "from " + to_text(*row.time) : std::string("of unknown age")));
    }
  }
  connection.begin_work();
  Transaction transaction(connection, Transaction::Kind::write);
  write_down(connection, sql);
  transaction.commit();
}

void require_adopted(Connection& connection, const Sql& sql) {
  require_no_other(connection, sql);
  if (!sql.mapping().foreign || adopted(connection, sql).answer == Adopted::Answer::yes) return;
  throw Unusable(fmt::format("no relay has begun on the table {} in {} yet: see outbox-relay adopt",
                             sql.outbox(), connection.label()));
}

void require_no_other(Connection& connection, const Sql& sql) {
  if (!sql.mapping().foreign) return;
  const Adopted before = adopted(connection, sql);
  if (before.answer == Adopted::Answer::as_another)
    throw Unusable(begun_otherwise(sql.outbox(), connection.label(), before));
}

AdoptionCount count_old_rows(Connection& connection, const Sql& sql, const std::string& now) {
  AdoptionOrder order;
  order.since = time_now(connection, now) - kFreshAge;
  order.skip_unknown = true;
  order.dry_run = true;
  return adopt(connection, sql, order, now);
}

AdoptionCount adopt(Connection& connection, const Sql& sql, const AdoptionOrder& order,
                    const std::string& now) {
  AdoptionCount count;
  count.others = count_others(connection, sql);
  OpenRows open(connection, sql);
  Marker marker(connection, sql);
  for (auto rows = open.next(); !rows.empty(); rows = open.next()) {
    for (const OpenRow& row : rows) {
      ++(is_skipped(row, order) ? count.skipped : count.taken);
      if (!row.time) ++count.unknown;
    }
    if (!order.dry_run) mark(connection, marker, rows, order);
  }
  if (order.dry_run) return count;
  connection.begin_work();
  Transaction transaction(connection, Transaction::Kind::write);
  write_down(connection, sql);
  note_adoption(connection, sql, order, count, now);
  transaction.commit();
  return count;
}

}  // namespace outbox::postgres
