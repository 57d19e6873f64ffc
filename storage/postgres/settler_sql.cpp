#include "storage/postgres/settler_sql.h"

#include <fmt/format.h>

namespace outbox::postgres {
namespace {

// What a verdict changes in the outbox's own row. The table may lack some of the columns.
class Assignments {
 public:
  explicit Assignments(const Sql& sql) : sql_(sql) {}

  // SET takes bare column names, hence no alias before them.
  void set(const std::string& column, const std::string& value) {
    if (column.empty()) return;
    text_ += fmt::format("{}{} = {}", text_.empty() ? "" : ", ", quoted(column), value);
  }
  void set_status(const std::string& state) {
    if (!state.empty()) set(sql_.mapping().columns.status, sql_.state_literal(state));
  }
  void set_time(const std::string& column, const std::string& time) {
    if (!column.empty()) set(column, sql_.as_column_time(column, time));
  }
  void count() {
    const std::string& column = sql_.mapping().columns.retry_count;
    if (column.empty()) return;
    set(column, fmt::format("coalesce(x.counted, {}, 0) + x.charge", sql_.column(column)));
  }

  // The keys of the rows that `state` is true of afterwards: a trigger may have put it back.
  std::string update(const std::string& source, const std::string& state) const {
    if (text_.empty()) return {};
    return fmt::format(
        "UPDATE {} SET {} FROM {} WHERE {} = {} AND {} AND {} = x.fingerprint "
        "RETURNING CASE WHEN {} THEN {} END",
        sql_.from(), text_, source, sql_.row_key(), sql_.as_key("x.key"), sql_.is_open(),
        sql_.fingerprint(), state, sql_.key_text());
  }

 private:
  const Sql& sql_;
  std::string text_;
};

}  // namespace

std::string processed_sql(const Sql& sql) {
  const Columns& c = sql.mapping().columns;
  Assignments row(sql);
  row.set_status(sql.mapping().states.processed);
  row.set_time(c.processed_on, "$3::timestamptz");
  row.set(c.last_error, "NULL");
  row.set(c.next_attempt, "NULL");
  return row.update("unnest($1, $2) AS x(key, fingerprint)", sql.is_processed());
}

std::string failed_sql(const Sql& sql) {
  const Columns& c = sql.mapping().columns;
  Assignments row(sql);
  row.set_status(sql.mapping().states.failed);
  row.count();
  row.set(c.last_error, "x.error");
  if (sql.table().holds_failed()) row.set_time(c.next_attempt, "x.due");
  return row.update(
      "unnest($1, $2, $3, $4, $5, $6) AS x(key, fingerprint, counted, charge, error, due)",
      sql.is_failed());
}

// A table without dead letters calls them failed.
std::string dead_sql(const Sql& sql) {
  const Columns& c = sql.mapping().columns;
  const States& states = sql.mapping().states;
  Assignments row(sql);
  row.set_status(states.dead_lettered.empty() ? states.failed : states.dead_lettered);
  row.count();
  row.set(c.last_error, "x.error");
  row.set(c.dead_letter_reason, "x.reason");
  if (sql.table().holds_failed()) row.set(c.next_attempt, "NULL");
  return row.update(
      "unnest($1, $2, $3, $4, $5, $6) AS x(key, fingerprint, counted, charge, error, reason)",
      sql.is_dead());
}

// As an UPDATE locks it: rows that refer to it by a foreign key may be written meanwhile.
std::string look_sql(const Sql& sql, Lock lock) {
  const Columns& c = sql.mapping().columns;
  std::string locking;
  if (lock != Lock::none) locking = " FOR NO KEY UPDATE OF o";
  if (lock == Lock::skip) locking += " SKIP LOCKED";
  return fmt::format(
      "SELECT {}, coalesce({}, ''), coalesce({}, 0)::int8, {}, {}::text, {}::text FROM {} "
      "WHERE {} = ANY({}) ORDER BY {}{}",
      sql.key_text(), sql.state_name(), sql.value(c.retry_count), sql.fingerprint(),
      sql.column(c.id), sql.column(c.event_type), sql.from(), sql.row_key(), sql.as_keys("$1"),
      sql.row_key(), locking);
}

}  // namespace outbox::postgres
