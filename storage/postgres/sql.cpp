#include "storage/postgres/sql.h"

#include <fmt/format.h>

#include <utility>

#include "storage/mapping/row_handle.h"
#include "storage/mapping/states.h"

namespace outbox::postgres {
namespace {

// Times from the year 1 to 9999, in microseconds since 1970 as a numeric.
constexpr const char* kTimeRange = "BETWEEN -62135596800 AND 253402300799";

// Places of rows whose time is no moment. Those without a time are put last by the server.
constexpr const char* kBeginningOfTime = "-9223372036854775807";
constexpr const char* kEndOfTime = "9223372036854775806";
constexpr const char* kNoTime = "9223372036854775807";

bool is_bytes(const std::string& type) { return type == "bytea"; }

bool is_number(const std::string& type) {
  return type == "bigint" || type == "integer" || type == "smallint" || type == "numeric" ||
         type == "double precision" || type == "real";
}

bool is_time(const std::string& type) { return type.starts_with("timestamp") || type == "date"; }

bool has_zone(const std::string& type) { return type == "timestamp with time zone"; }

// As the relay's tables have it, whatever bytea_output says.
std::string text_of(const std::string& column, const std::string& type) {
  if (is_bytes(type)) return fmt::format("(E'\\\\x' || encode({}, 'hex'))", column);
  return column + "::text";
}

// Seconds since 1970 of a number in that unit.
std::string seconds_of(const std::string& number, TimeFormat format) {
  switch (format) {
    case TimeFormat::iso:
    case TimeFormat::sql:
    case TimeFormat::seconds:
      break;
    case TimeFormat::milliseconds:
      return fmt::format("({}::numeric / 1000)", number);
    case TimeFormat::ticks:
      return fmt::format("(({}::numeric - 621355968000000000) / 10000000)", number);
  }
  return number + "::numeric";
}

std::string number_of(const std::string& time, TimeFormat format) {
  const std::string seconds = fmt::format("extract(epoch FROM {})", time);
  switch (format) {
    case TimeFormat::iso:
    case TimeFormat::sql:
    case TimeFormat::seconds:
      break;
    case TimeFormat::milliseconds:
      return fmt::format("floor({} * 1000)", seconds);
    case TimeFormat::ticks:
      return fmt::format("(floor({} * 1000) * 10000 + 621355968000000000)", seconds);
  }
  return fmt::format("floor({})", seconds);
}

}  // namespace

std::string Sql::text(const std::string& name) const {
  if (name.empty()) return "NULL::text";
  const std::string type = table_.type_of(name);
  if (is_bytes(type) || type == "text") return column(name);
  return column(name) + "::text";
}

std::string Sql::time(const std::string& name) const {
  const std::string type = table_.type_of(name);
  if (has_zone(type)) return column(name);
  if (is_time(type)) return fmt::format("({}::timestamp AT TIME ZONE 'UTC')", column(name));
  if (!is_number(type)) return "NULL::timestamptz";
  const std::string seconds = seconds_of(column(name), mapping().times);
  return fmt::format("CASE WHEN {0} {1} THEN to_timestamp({0}::float8) END", seconds, kTimeRange);
}

std::string Sql::as_column_time(const std::string& name, const std::string& value) const {
  const std::string type = table_.type_of(name);
  if (has_zone(type)) return value;
  if (is_time(type)) return fmt::format("({} AT TIME ZONE 'UTC')", value);
  if (is_number(type)) return fmt::format("({})::{}", number_of(value, mapping().times), type);
  const bool iso = mapping().times == TimeFormat::iso;
  return fmt::format("to_char({} AT TIME ZONE 'UTC', '{}')", value,
                     iso ? R"(YYYY-MM-DD"T"HH24:MI:SS.MS"Z")" : "YYYY-MM-DD HH24:MI:SS.MS");
}

std::string Sql::payload() const { return text(mapping().columns.payload); }

// Of a bytea or a text it is known without reading the value.
std::string Sql::payload_size() const { return fmt::format("octet_length({})", payload()); }

std::string Sql::key_text() const {
  return fmt::format("({} COLLATE \"C\")", text_of(row_key(), table_.type_of(mapping().row_key())));
}

std::string Sql::with_key() const {
  const TableColumn* key = find_column(table_.columns, mapping().row_key());
  return key != nullptr && key->nullable ? fmt::format(" AND {} IS NOT NULL", row_key()) : "";
}

std::string Sql::as_key(const std::string& text) const {
  return fmt::format("({}::text::{})", text, table_.type_of(mapping().row_key()));
}

std::string Sql::as_keys(const std::string& texts) const {
  return fmt::format("({}::text[]::{}[])", texts, table_.type_of(mapping().row_key()));
}

bool Sql::orders_by_number() const { return is_number(table_.type_of(mapping().order)); }

bool Sql::orders_by_time() const { return is_time(table_.type_of(mapping().order)); }

std::string Sql::place() const {
  if (orders_by_number()) return column(mapping().order) + "::int8";
  if (!orders_by_time()) return "0::int8";
  return fmt::format(
      "CASE WHEN isfinite({0}) THEN (extract(epoch FROM {0}) * 1000000)::int8 "
      "WHEN {0} < timestamptz 'epoch' THEN {1} WHEN {0} IS NOT NULL THEN {2} ELSE {3} END",
      time(mapping().order), kBeginningOfTime, kEndOfTime, kNoTime);
}

std::string Sql::tie() const { return orders_by_number() ? "''" : key_text(); }

std::string Sql::order() const {
  if (orders_by_number() || !orders_by_time()) return column(mapping().order);
  return column(mapping().order) + ", " + row_key();
}

std::string Sql::order_descending() const {
  if (orders_by_number() || !orders_by_time()) return column(mapping().order) + " DESC";
  return column(mapping().order) + " DESC, " + row_key() + " DESC";
}

std::string Sql::at_or_after(const std::string& number, const std::string& tie) const {
  if (orders_by_number()) return fmt::format("{} >= {}", column(mapping().order), number);
  if (!orders_by_time()) return fmt::format("{} >= {}", row_key(), as_key(tie));
  // NULL, which nothing is at or after, of a place among rows without a time.
  const std::string moment = fmt::format(
      "(CASE {0} WHEN {1} THEN timestamptz '-infinity' WHEN {2} THEN timestamptz 'infinity' "
      "WHEN {3} THEN NULL ELSE timestamptz 'epoch' + {0} * interval '1 microsecond' END)",
      number, kBeginningOfTime, kEndOfTime, kNoTime);
  return fmt::format("({}, {}) >= ({}, {})", column(mapping().order), row_key(),
                     as_column_time(mapping().order, moment), as_key(tie));
}

// Rows without a time stand behind all others, and nothing is at or after NULL.
bool Sql::has_timeless() const {
  const TableColumn* order = find_column(table_.columns, mapping().order);
  return orders_by_time() && order != nullptr && order->nullable;
}

std::string Sql::from_place(const std::string& number, const std::string& tie) const {
  if (!has_timeless()) return at_or_after(number, tie);
  return fmt::format("({} OR {} IS NULL AND ({} <> {} OR {} >= {}))", at_or_after(number, tie),
                     column(mapping().order), number, kNoTime, row_key(), as_key(tie));
}

// In parts, each of which is one range of an index by time and key.
std::string Sql::rows_from(const std::string& number, const std::string& tie) const {
  if (!has_timeless()) {
    return fmt::format("(SELECT * FROM {} WHERE {}) AS o", from(), at_or_after(number, tie));
  }
  const std::string time = column(mapping().order);
  return fmt::format(
      "(SELECT * FROM (SELECT *, 1 AS outbox_relay_part FROM {0} UNION ALL SELECT *, 2 FROM {0} "
      "UNION ALL SELECT *, 3 FROM {0}) AS o WHERE (outbox_relay_part = 1 AND {1}) "
      "OR (outbox_relay_part = 2 AND {2} IS NULL AND {3} <> {4}) "
      "OR (outbox_relay_part = 3 AND {2} IS NULL AND {3} = {4} AND {5} >= {6})) AS o",
      from(), at_or_after(number, tie), time, number, kNoTime, row_key(), as_key(tie));
}

// 31 bits, so that it is never negative; never kAnyFingerprint. It is asked for twice a row: md5()
// would cost more than to find the row. This hash stays the same from version to version, since
// tables are partitioned by it.
std::string Sql::fingerprint() const {
  const std::string& id = mapping().columns.id;
  return fmt::format("greatest(pg_catalog.hashtextextended({} COLLATE \"C\", 0) & 2147483647, 1)",
                     text_of(column(id), table_.type_of(id)));
}

std::string Sql::state_literal(const std::string& state) const {
  return mapping().numeric_status ? state : literal(state);
}

// False for a state that the table does not have.
std::string Sql::is(const std::string& alias, const std::string& state) const {
  const std::string& status = mapping().columns.status;
  if (status.empty() || state.empty()) return "false";
  return fmt::format("{}{} = {}", alias, quoted(status), state_literal(state));
}

std::string Sql::is_pending(const std::string& alias) const {
  return table_.holds_failed() ? is(alias, mapping().states.pending) : is_open(alias);
}

std::string Sql::is_failed(const std::string& alias) const {
  return table_.holds_failed() ? is(alias, mapping().states.failed) : "false";
}

std::string Sql::is_processed(const std::string& alias) const {
  const Columns& c = mapping().columns;
  if (!c.status.empty()) return is(alias, mapping().states.processed);
  return c.processed_on.empty() ? "false"
                                : fmt::format("{}{} IS NOT NULL", alias, quoted(c.processed_on));
}

std::string Sql::is_dead(const std::string& alias) const {
  return is(alias, mapping().states.dead_lettered);
}

std::string Sql::is_open(const std::string& alias) const {
  const Columns& c = mapping().columns;
  const States& s = mapping().states;
  if (c.status.empty()) {
    return c.processed_on.empty() ? "true"
                                  : fmt::format("{}{} IS NULL", alias, quoted(c.processed_on));
  }
  if (s.failed.empty()) return is(alias, s.pending);
  return fmt::format("{}{} IN ({}, {})", alias, quoted(c.status), state_literal(s.pending),
                     state_literal(s.failed));
}

std::string Sql::state_name() const {
  std::string text = "CASE";
  for (const auto& [condition, name] :
       {std::pair(is_pending(), state::kPending), std::pair(is_failed(), state::kFailed),
        std::pair(is_processed(), state::kProcessed), std::pair(is_dead(), state::kDeadLettered)}) {
    if (condition != "false") text += fmt::format(" WHEN {} THEN '{}'", condition, name);
  }
  return text + " END";
}

std::string Sql::whole_state() const {
  return fmt::format("coalesce(r.state, {}, '')", state_name());
}

std::string Sql::due() const {
  return table_.holds_failed() ? time(mapping().columns.next_attempt) : "NULL::timestamptz";
}

std::string Sql::side_row_speaks() const {
  return fmt::format("({} OR {}) AND (coalesce(r.fingerprint, {}) = {} OR r.fingerprint = {})",
                     is_open(), is_dead(), kAnyFingerprint, kAnyFingerprint, fingerprint());
}

std::string Sql::side_row() const {
  return fmt::format("LEFT JOIN {} AS r ON r.outbox = $1 AND r.row_key = {} AND {}", rows(),
                     key_text(), side_row_speaks());
}

std::string Sql::beside() const {
  return fmt::format("LEFT JOIN {} AS l ON l.outbox = $1 AND l.row_key = {} {}", leases(),
                     key_text(), side_row());
}

std::string Sql::from_side() const {
  return fmt::format("{} AS r JOIN {} ON {} = {} AND {}", rows(), from(), row_key(),
                     as_key("r.row_key"), side_row_speaks());
}

}  // namespace outbox::postgres
