#include "storage/sqlite/sqlite_desk.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "storage/sqlite/identifiers.h"
#include "storage/sqlite/schema.h"
#include "storage/sqlite/settler.h"
#include "storage/sqlite/time_reader.h"

namespace outbox::sqlite {
namespace {

constexpr auto kPatience = std::chrono::seconds{5};
constexpr std::size_t kChunk = 100;  // rows a transaction: the write lock is held briefly

Mapping prepare(Connection& connection, const Mapping& wanted) {
  Mapping mapping = require_outbox(connection, wanted);
  require_relay_tables(connection, false);
  return mapping;
}

// A row's value, or what stands for it beside.
std::string either(const std::string& column, const std::string& beside) {
  return fmt::format("CASE WHEN r.state IS NULL THEN {} ELSE r.{} END", column, beside);
}

// Dead letters by ?2 event type, ?3 reason, ?4 ids (a JSON list), after row ?5, at most ?6.
std::string dead_letters_sql(const Sql& sql) {
  const Columns& c = sql.mapping().columns;
  const std::string reason = either(sql.value(c.dead_letter_reason), "dead_letter_reason");
  const std::string columns = fmt::format(
      "{}, {}, {}, {}, {}, {}, {}, {}, {}, {}", sql.order(), sql.column(c.id),
      sql.column(c.event_type), sql.value(c.ordering_key), reason,
      either(sql.value(c.retry_count), "retry_count"), either(sql.value(c.last_error), "error"),
      sql.value(c.occurred_on), sql.state_name(), sql.row_key());
  const std::string filter = fmt::format(
      "(?2 = '' OR {} = ?2) AND (?3 = '' OR {} = ?3) "
      "AND (?4 IS NULL OR {} IN (SELECT value FROM json_each(?4))) AND {} > ?5",
      sql.column(c.event_type), reason, sql.column(c.id), sql.order());
  return fmt::format(
      "SELECT {0} FROM {1} LEFT JOIN outbox_relay_rows AS r ON r.outbox = ?1 AND r.row_key = {2} "
      "WHERE {3} AND (r.state IS NULL OR r.state = '{4}') AND {5} "
      "UNION ALL "
      "SELECT {0} FROM outbox_relay_rows AS r JOIN {6} AS o ON {7} = r.row_key "
      "WHERE r.outbox = ?1 AND r.state IS NOT NULL AND r.state = '{4}' AND NOT ({3}) AND {5} "
      "ORDER BY 1 LIMIT ?6",
      columns, sql.from_dead(), sql.key_beside(), sql.is_dead(), state::kDeadLettered, filter,
      sql.table(), sql.row_key());
}

// Empty if the table has no column for any of it. A table without dead letters shows them as failed
// or open rows.
std::string revive_sql(const Sql& sql) {
  const Columns& c = sql.mapping().columns;
  std::string assignments;
  const auto set = [&](const std::string& column, const std::string& value) {
    if (column.empty()) return;
    assignments += fmt::format("{}{} = {}", assignments.empty() ? "" : ", ", quoted(column), value);
  };
  if (!c.status.empty()) set(c.status, sql.state_literal(sql.mapping().states.pending));
  set(c.retry_count, "0");
  set(c.next_attempt, "NULL");
  set(c.last_error, "NULL");
  set(c.dead_letter_reason, "NULL");
  if (assignments.empty()) return {};
  const std::string open = sql.mapping().holds_dead() ? "0" : sql.is_open();
  return fmt::format("UPDATE {} AS o SET {} WHERE {} = ?1 AND ({} OR {})", sql.table(), assignments,
                     sql.row_key(), sql.is_dead(), open);
}

struct FoundDead {
  Value key;
  std::int64_t place = 0;
  DeadLetter letter;
  std::string outbox_state;  // in the outbox's own row
};

}  // namespace

// What one question needs.
struct SqliteDesk::Desk {
  Desk(const std::string& path, const Mapping& mapping, const Clocks& clocks_used)
      : clocks(clocks_used),
        connection(path, kPatience),
        sql(connection, prepare(connection, mapping)),
        outbox(sql.mapping().table),
        side_rows(connection, outbox, clocks),
        times(connection, sql.mapping().times) {}

  Backlog backlog();
  std::uint64_t count(const std::string& from, const std::string& where);
  void subtract_leases(Backlog& backlog);
  void move_those_beside(Backlog& backlog);
  std::optional<Duration> oldest_age();
  void count_dead_types(Backlog& backlog);

  std::vector<FoundDead> find_dead(const DeadLetterFilter& filter, std::int64_t after,
                                   std::size_t limit);
  void revive(const FoundDead& found, const std::string& reason);
  bool revive_in_place(const Value& key);
  void hold_circuit(bool hold, const std::string& reason);

  const Clocks& clocks;
  Connection connection;
  Sql sql;
  std::string outbox;
  SideRows side_rows;
  TimeReader times;
};

Backlog SqliteDesk::Desk::backlog() {
  Transaction snapshot(connection, Transaction::Kind::read);
  Backlog result;
  result.pending = count(sql.from_pending(), sql.is_pending());
  result.failed = count(sql.from_failed(), sql.is_failed());
  result.dead_lettered = count(sql.from_dead(), sql.is_dead());
  move_those_beside(result);
  subtract_leases(result);
  result.oldest_age = oldest_age();
  count_dead_types(result);
  snapshot.commit();
  return result;
}

std::uint64_t SqliteDesk::Desk::count(const std::string& from, const std::string& where) {
  Query query(connection.database(), fmt::format("SELECT count(*) FROM {} WHERE {}", from, where));
  auto rows = query.rows();
  return rows.next() ? static_cast<std::uint64_t>(rows.integer(0)) : 0;
}

// A state kept beside a row stands for the row's own.
void SqliteDesk::Desk::move_those_beside(Backlog& backlog) {
  std::map<std::string, std::uint64_t*> counts{{state::kPending, &backlog.pending},
                                               {state::kFailed, &backlog.failed},
                                               {state::kDeadLettered, &backlog.dead_lettered}};
  Query query(connection.database(),
              fmt::format("SELECT {}, r.state, count(*) FROM outbox_relay_rows AS r "
                          "JOIN {} AS o ON {} = r.row_key "
                          "WHERE r.outbox = ?1 AND r.state IS NOT NULL GROUP BY 1, 2",
                          sql.state_name(), sql.table(), sql.row_key()));
  auto rows = query.rows(outbox);
  while (rows.next()) {
    const auto number = static_cast<std::uint64_t>(rows.integer(2));
    if (const auto from = counts.find(rows.text(0)); from != counts.end()) {
      *from->second -= std::min(*from->second, number);
    }
    if (const auto to = counts.find(rows.text(1)); to != counts.end()) *to->second += number;
  }
}

void SqliteDesk::Desk::subtract_leases(Backlog& backlog) {
  Query query(connection.database(),
              fmt::format("SELECT coalesce(r.state, {0}), count(*) FROM outbox_relay_leases AS l "
                          "JOIN {1} AS o ON {2} = l.row_key LEFT JOIN outbox_relay_rows AS r "
                          "ON r.outbox = ?1 AND r.row_key = l.row_key "
                          "WHERE l.outbox = ?1 GROUP BY 1",
                          sql.state_name(), sql.table(), sql.row_key()));
  auto rows = query.rows(outbox);
  while (rows.next()) {
    const auto number = static_cast<std::uint64_t>(rows.integer(1));
    const std::string name = rows.text(0);
    if (name == state::kPending) backlog.pending -= std::min(backlog.pending, number);
    if (name == state::kFailed) backlog.failed -= std::min(backlog.failed, number);
    if (name == state::kPending || name == state::kFailed) backlog.leased += number;
  }
}

std::optional<Duration> SqliteDesk::Desk::oldest_age() {
  std::optional<WallTime> oldest;
  for (const auto& [from, where] : {std::pair(sql.from_pending(), sql.is_pending()),
                                    std::pair(sql.from_failed(), sql.is_failed())}) {
    Query query(connection.database(),
                fmt::format("SELECT {} FROM {} LEFT JOIN outbox_relay_rows AS r "
                            "ON r.outbox = ?1 AND r.row_key = {} WHERE {} "
                            "AND (r.state IS NULL OR r.state IN ('{}', '{}')) ORDER BY {} LIMIT 1",
                            sql.value(sql.mapping().columns.occurred_on), from, sql.key_beside(),
                            where, state::kPending, state::kFailed, sql.order()));
    auto rows = query.rows(outbox);
    if (!rows.next()) continue;
    const auto time = times.read(rows.text(0));
    if (time) oldest = std::min(oldest.value_or(*time), *time);
  }
  if (!oldest) return std::nullopt;
  return std::max<Duration>(clocks.wall() - *oldest, Duration{0});
}

void SqliteDesk::Desk::count_dead_types(Backlog& backlog) {
  if (backlog.dead_lettered == 0) return;
  const std::string type = sql.column(sql.mapping().columns.event_type);
  Query query(
      connection.database(),
      fmt::format("SELECT type, count(*) FROM ("
                  "SELECT {0} AS type FROM {1} LEFT JOIN outbox_relay_rows AS r ON r.outbox = ?1 "
                  "AND r.row_key = +{2} WHERE {3} AND (r.state IS NULL OR r.state = '{4}') "
                  "UNION ALL SELECT {0} FROM outbox_relay_rows AS r JOIN {5} AS o "
                  "ON {2} = r.row_key WHERE r.outbox = ?1 AND r.state IS NOT NULL "
                  "AND r.state = '{4}' AND NOT ({3})) GROUP BY type ORDER BY type",
                  type, sql.from_dead(), sql.row_key(), sql.is_dead(), state::kDeadLettered,
                  sql.table()));
  auto rows = query.rows(outbox);
  while (rows.next()) {
    backlog.dead_by_event_type.emplace_back(rows.text(0),
                                            static_cast<std::uint64_t>(rows.integer(1)));
  }
}

std::vector<FoundDead> SqliteDesk::Desk::find_dead(const DeadLetterFilter& filter,
                                                   std::int64_t after, std::size_t limit) {
  std::optional<std::string> ids;
  if (!filter.ids.empty()) {
    ids = nlohmann::json(filter.ids).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  std::vector<FoundDead> result;
  Query query(connection.database(), dead_letters_sql(sql));
  auto rows = query.rows(outbox, filter.event_type, filter.reason, ids, after, limit);
  while (rows.next()) {
    FoundDead found;
    found.place = rows.integer(0);
    found.key = rows.value(9).value_or(Value{});
    found.letter.id = rendered_id(rows, 1);
    found.letter.event_type = rows.text(2);
    found.letter.ordering_key = rows.text(3);
    found.letter.reason = rows.text(4);
    found.letter.attempts =
        static_cast<std::uint32_t>(std::clamp<std::int64_t>(rows.integer(5), 0, UINT32_MAX));
    found.letter.last_error = rows.text(6);
    found.letter.occurred_on = rows.text(7);
    found.outbox_state = rows.text(8);
    result.push_back(std::move(found));
  }
  return result;
}

void SqliteDesk::Desk::revive(const FoundDead& found, const std::string& reason) {
  const SideRow before = side_rows.read(found.key).value_or(SideRow{});
  SideRow side;
  side.generation = before.generation + 1;
  // What was true of earlier attempts stays true; a row that took relays down stays alone.
  side.outcome_unknown = before.outcome_unknown;
  side.takeovers = before.takeovers;
  SizeProbe sizes(connection, sql.mapping().table, sql.mapping().columns.payload);
  const bool large = sizes.bytes(found.place) > kRewriteMax;
  sizes.close();
  const bool pending_by_itself =
      sql.mapping().holds_dead() && found.outbox_state == state::kPending;
  const bool in_place = !pending_by_itself && !large && revive_in_place(found.key);
  if (!pending_by_itself && !in_place) {
    side.state = state::kPending;
    side.retry_count = 0;
  }
  side_rows.write(found.key, side);
  Query audit(connection.database(),
              "INSERT INTO outbox_relay_audit (outbox, row_key, event_id, at, action, reason) "
              "VALUES (?1, ?2, ?3, ?4, 'redrive', ?5)");
  audit.run(outbox, found.key, found.letter.id, to_text(clocks.wall()), shortened(reason));
}

// False if the row is not dead in the outbox itself, or refuses to be written.
bool SqliteDesk::Desk::revive_in_place(const Value& key) {
  const std::string statement = revive_sql(sql);
  if (statement.empty()) return false;
  Query update(connection.database(), statement);
  connection.database().exec("SAVEPOINT revive");
  try {
    const bool changed = update.run(key) == 1;
    connection.database().exec("RELEASE revive");
    return changed;
  } catch (const SQLite::Exception&) {
    if (!connection.in_transaction()) throw;
    connection.database().exec("ROLLBACK TO revive");
    connection.database().exec("RELEASE revive");
    return false;
  }
}

// One outbox has one broker as far as its relays know: the row without a name stands for it.
void SqliteDesk::Desk::hold_circuit(bool hold, const std::string& reason) {
  Query hold_it(connection.database(),
                "INSERT INTO outbox_relay_brokers (outbox, broker, isolated, reason, updated) "
                "VALUES (?1, '', ?2, ?3, ?4) ON CONFLICT (outbox, broker) "
                "DO UPDATE SET isolated = ?2, reason = ?3, updated = ?4");
  Query audit(
      connection.database(),
      "INSERT INTO outbox_relay_audit (outbox, at, action, reason) VALUES (?1, ?2, ?3, ?4)");
  const std::string now = to_text(clocks.wall());
  const std::string why = shortened(reason);
  Query let_go(connection.database(),
               "UPDATE outbox_relay_brokers SET isolated = 0 WHERE outbox = ?1 AND isolated <> 0");
  Transaction transaction(connection, Transaction::Kind::write);
  let_go.run(outbox);
  hold_it.run(outbox, hold ? 1 : 0, why, now);
  audit.run(outbox, now, std::string(hold ? "isolate" : "close"), why);
  transaction.commit();
}

SqliteDesk::SqliteDesk(const StoreSettings& settings, std::function<WallTime()> wall)
    : settings_(settings),
      mapping_(mapping_of(settings)),
      path_(path_of(settings.url)),
      clocks_{.boot = &boot_, .wall = std::move(wall), .boot_id = system_clocks(boot_).boot_id} {}

template <class Value, class Ask>
Answer<Value> SqliteDesk::ask(const Ask& question) {
  Answer<Value> answer;
  try {
    Desk desk(path_, mapping_, clocks_);
    question(desk, answer.value);
  } catch (const SQLite::Exception& error) {
    answer.error = describe(path_, error);
  } catch (const std::exception& error) {
    answer.error = error.what();
  }
  return answer;
}

Answer<Backlog> SqliteDesk::backlog() {
  return ask<Backlog>([](Desk& desk, Backlog& value) { value = desk.backlog(); });
}

Answer<std::vector<DeadLetter>> SqliteDesk::dead_letters(const DeadLetterFilter& filter) {
  return ask<std::vector<DeadLetter>>([&](Desk& desk, std::vector<DeadLetter>& value) {
    for (FoundDead& found : desk.find_dead(filter, INT64_MIN, filter.limit)) {
      value.push_back(std::move(found.letter));
    }
  });
}

Answer<std::uint64_t> SqliteDesk::redrive(const DeadLetterFilter& filter,
                                          const std::string& reason) {
  return ask<std::uint64_t>([&](Desk& desk, std::uint64_t& moved) {
    std::int64_t after = INT64_MIN;
    while (moved < filter.limit) {
      Transaction transaction(desk.connection, Transaction::Kind::write);
      const std::size_t limit = std::min<std::size_t>(kChunk, filter.limit - moved);
      const auto chunk = desk.find_dead(filter, after, limit);
      if (chunk.empty()) return;
      for (const FoundDead& found : chunk) desk.revive(found, reason);
      transaction.commit();
      moved += chunk.size();
      after = chunk.back().place;
    }
  });
}

Answer<bool> SqliteDesk::hold_circuit(bool hold, const std::string& reason) {
  return ask<bool>([&](Desk& desk, bool& value) {
    desk.hold_circuit(hold, reason);
    value = hold;
  });
}

}  // namespace outbox::sqlite
