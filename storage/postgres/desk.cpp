#include "storage/postgres/desk.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "storage/mapping/attempt_text.h"
#include "storage/mapping/identifiers.h"
#include "storage/mapping/states.h"
#include "storage/mapping/time_forms.h"
#include "storage/postgres/grants.h"
#include "storage/postgres/schema.h"

namespace outbox::postgres {
namespace {

Table prepare(Connection& connection, const StoreSettings& settings) {
  Table table = require_outbox(connection, settings);
  require_relay_tables(connection, table.schema);
  return table;
}

bool is_text(const std::string& type) { return type == "text" || type == "character varying"; }

bool is_integer(const std::string& type) {
  return type == "bigint" || type == "integer" || type == "smallint";
}

bool is_time(const std::string& type) { return type.starts_with("timestamp") || type == "date"; }

template <class Integer>
bool is_number(const std::string& text) {
  Integer value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  return error == std::errc{} && rest == end;
}

bool is_possible(const std::string& text, const std::string& type) {
  if (type == "smallint") return is_number<std::int16_t>(text);
  if (type == "integer") return is_number<std::int32_t>(text);
  return is_number<std::int64_t>(text);
}

// Those that the type can hold: another would be an error to the server.
std::vector<std::string> possible_ids(const std::vector<std::string>& ids, const std::string& type,
                                      GuidOrder guids) {
  std::vector<std::string> possible;
  for (const std::string& id : ids) {
    if (id.find('\0') != std::string::npos) continue;
    if (type == "uuid") {
      if (guid_bytes(id, GuidOrder::plain)) possible.push_back(id);
    } else if (is_integer(type)) {
      if (is_possible(id, type)) possible.push_back(id);
    } else if (type == "bytea") {
      auto bytes = guid_bytes(id, guids);
      if (!bytes) bytes = hex_bytes(id);
      std::string digits = hex_text(bytes.value_or(id));
      possible.push_back(digits.substr(2, digits.size() - 3));  // without x' and '
    } else {
      possible.push_back(id);
    }
  }
  return possible;
}

}  // namespace

Desk::Desk(const StoreSettings& given, std::string now_sql)
    : settings(given),
      now(std::move(now_sql)),
      connection(connection_settings(given, "desk")),
      sql(prepare(connection, given)),
      outbox(sql.outbox()) {}

void Desk::audit(const Deed& deed) {
  ask(connection,
      fmt::format("INSERT INTO {} (outbox, row_key, event_id, at, action, reason) "
                  "VALUES ($1, $2, $3, {}, $4, $5)",
                  sql.audit(), now),
      outbox, deed.key, deed.event_id, deed.action, shortened(deed.reason));
}

Wanted Desk::wanted(const std::vector<std::string>& ids, const std::string& parameter) const {
  const std::string& id = sql.mapping().columns.id;
  const std::string type = sql.table().type_of(id);
  Wanted result{.condition = {}, .ids = possible_ids(ids, type, sql.mapping().guids)};
  if (is_text(type)) {
    result.condition = fmt::format("{} = ANY({}::text[])", sql.column(id), parameter);
  } else if (type == "uuid" || is_integer(type)) {
    result.condition = fmt::format("{} = ANY({}::text[]::{}[])", sql.column(id), parameter, type);
  } else if (type == "bytea") {
    result.condition =
        fmt::format("{} = ANY(ARRAY(SELECT decode(w, 'hex') FROM unnest({}::text[]) AS w))",
                    sql.column(id), parameter);
  } else {
    result.condition = fmt::format("{}::text = ANY({}::text[])", sql.column(id), parameter);
  }
  return result;
}

std::string Desk::behind(const Sql& sql, const std::string& place, const std::string& tie,
                         const std::string& key) {
  return fmt::format("{} AND {} <> {}", sql.from_place(place, tie), sql.key_text(), key);
}

std::string Desk::locked() const {
  return written_columns(sql.mapping()).empty() ? "" : " FOR UPDATE OF o";
}

std::string Desk::equals(const std::string& column, const std::string& parameter) const {
  if (column.empty()) return "false";
  const std::string type = sql.table().type_of(column);
  return fmt::format("{}{} = {}::text", sql.column(column), is_text(type) ? "" : "::text",
                     parameter);
}

std::string Desk::readable(const std::string& column) const {
  if (column.empty()) return "NULL::text";
  const std::string type = sql.table().type_of(column);
  if (is_time(type)) return rfc3339(sql.time(column));
  if (type == "bytea") return fmt::format("'x''' || encode({}, 'hex') || ''''", sql.column(column));
  return sql.column(column) + "::text";
}

std::string Desk::shown_time(const std::string& text) const {
  if (parse_time(text) && has_rfc3339_form(text)) return text;
  const auto time = read_time(text, sql.mapping().times);
  return time ? to_text(*time) : text;
}

std::string Desk::shown_id(const std::string& column, std::string value) const {
  if (column.empty() || sql.table().type_of(column) != "bytea") return value;
  return guid_text(value, sql.mapping().guids).value_or(hex_text(value));
}

std::string Desk::select_dead(const std::string& columns, const std::string& filter,
                              const std::string& rest) const {
  return fmt::format(
      "(SELECT {0} FROM {1} {2} WHERE {3} AND (r.state IS NULL OR r.state = '{4}') AND {5} {7}) "
      "UNION ALL (SELECT {0} FROM {6} WHERE r.outbox = $1 AND r.state IS NOT NULL "
      "AND r.state = '{4}' AND NOT ({3}) AND {5} {7})",
      columns, sql.from(), sql.side_row(), sql.is_dead(), state::kDeadLettered, filter,
      sql.from_side(), rest);
}

std::string Desk::either(const std::string& column, const std::string& beside) {
  return fmt::format("CASE WHEN r.state IS NULL THEN coalesce({0}, r.{1}) ELSE r.{1} END", column,
                     beside);
}

std::string rfc3339(const std::string& time) {
  return fmt::format(
      R"(CASE WHEN isfinite({0}) THEN to_char({0} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') ELSE {0}::text END)",
      time);
}

Snapshot::Snapshot(Connection& connection) : transaction_(connection, Transaction::Kind::read) {
  connection.command("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ");
}

}  // namespace outbox::postgres
