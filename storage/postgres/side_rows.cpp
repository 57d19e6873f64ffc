#include "storage/postgres/side_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "storage/mapping/headers.h"

namespace outbox::postgres {
namespace {

constexpr const char* kColumns =
    "state, dead_letter_reason, error, due, retry_count, processed_on, generation, counted, "
    "misconfigured_tries, misconfigured_since, last_failure, last_delay_ms, last_attempt_at, "
    "outcome_unknown, takeovers, crashes, taken_from, waits_for_recovery_epoch, fingerprint";

FailureKind kind_named(const std::string& name) {
  constexpr std::array kinds{FailureKind::transport,     FailureKind::throttled,
                             FailureKind::misconfigured, FailureKind::refused,
                             FailureKind::conflict,      FailureKind::short_circuited,
                             FailureKind::held};
  const auto* const found = std::find_if(kinds.begin(), kinds.end(),
                                         [&](FailureKind kind) { return name == name_of(kind); });
  return found != kinds.end() ? *found : FailureKind::none;
}

std::uint32_t count_of(std::int64_t value) {
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(value, 0, UINT32_MAX));
}

std::string read_sql(const Sql& sql) {
  return fmt::format("SELECT row_key, {} FROM {} WHERE outbox = $1 AND row_key = ANY($2)", kColumns,
                     sql.rows());
}

std::string write_sql(const Sql& sql) {
  std::string assignments;
  const std::string names = std::string(kColumns) + ", ";
  for (std::size_t at = 0; at < names.size();) {
    const std::size_t end = names.find(", ", at);
    const std::string name = names.substr(at, end - at);
    assignments += fmt::format("{}{} = excluded.{}", assignments.empty() ? "" : ", ", name, name);
    at = end + 2;
  }
  return fmt::format(
      "INSERT INTO {} (outbox, row_key, {}) SELECT $1, k, a, b, c, d, e, f, g, h, i, j, m, n, o, "
      "p <> 0, q, r, s, t, u FROM unnest($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, "
      "$15, $16, $17, $18, $19, $20, $21) "
      "AS x(k, a, b, c, d, e, f, g, h, i, j, m, n, o, p, q, r, s, t, u) ORDER BY k "
      "ON CONFLICT (outbox, row_key) DO UPDATE SET {}",
      sql.rows(), kColumns, assignments);
}

SideRow read_row(const Rows& rows) {
  SideRow side;
  side.state = rows.maybe_text(1);
  side.dead_letter_reason = rows.maybe_text(2);
  side.error = rows.maybe_text(3);
  side.due = rows.maybe_time(4);
  side.retry_count = rows.maybe_integer(5);
  side.processed_on = rows.maybe_time(6);
  side.generation = count_of(rows.integer(7));
  side.counted = count_of(rows.integer(8));
  side.misconfigured_tries = count_of(rows.integer(9));
  side.misconfigured_since = rows.maybe_time(10);
  side.last_failure = kind_named(rows.text(11));
  side.last_delay = std::chrono::milliseconds(rows.integer(12));
  side.last_attempt = rows.maybe_time(13);
  side.outcome_unknown = rows.boolean(14);
  side.takeovers = count_of(rows.integer(15));
  side.crashes = count_of(rows.integer(16));
  side.taken_from = rows.maybe_integer(17);
  side.waits_for_recovery_epoch = rows.maybe_integer(18);
  side.fingerprint = count_of(rows.integer(19));
  return side;
}

// One array for each column.
template <class Get>
auto column(const std::map<std::string, SideRow>& rows, const Get& get) {
  std::vector<decltype(get(SideRow{}))> values;
  values.reserve(rows.size());
  for (const auto& [key, side] : rows) values.push_back(get(side));
  return values;
}

template <class Kind>
auto member(const std::map<std::string, SideRow>& rows, Kind SideRow::*value) {
  if constexpr (std::is_integral_v<Kind>) {
    return column(rows,
                  [=](const SideRow& side) { return static_cast<std::int64_t>(side.*value); });
  } else {
    return column(rows, [=](const SideRow& side) { return side.*value; });
  }
}

}  // namespace

SideRows::SideRows(Connection& connection, const Sql& sql)
    : outbox_(sql.outbox()),
      read_(connection, read_sql(sql)),
      write_(connection, write_sql(sql)),
      erase_(connection,
             fmt::format("DELETE FROM {} WHERE outbox = $1 AND row_key = ANY($2)", sql.rows())) {}

std::map<std::string, SideRow> SideRows::read(const std::vector<std::string>& keys) {
  std::map<std::string, SideRow> result;
  if (keys.empty()) return result;
  Rows rows = read_.rows(outbox_, keys);
  while (rows.next()) result[rows.text(0)] = read_row(rows);
  return result;
}

void SideRows::write(const std::map<std::string, SideRow>& rows) {
  if (rows.empty()) return;
  std::vector<std::string> keys;
  keys.reserve(rows.size());
  for (const auto& row : rows) keys.push_back(row.first);
  const auto failures = column(rows, [](const SideRow& side) {
    return side.last_failure == FailureKind::none
               ? std::nullopt
               : std::optional<std::string>(name_of(side.last_failure));
  });
  const auto delays = column(rows, [](const SideRow& side) -> std::int64_t {
    return std::chrono::ceil<std::chrono::milliseconds>(side.last_delay).count();
  });
  write_.run(outbox_, keys, member(rows, &SideRow::state),
             member(rows, &SideRow::dead_letter_reason), member(rows, &SideRow::error),
             member(rows, &SideRow::due), member(rows, &SideRow::retry_count),
             member(rows, &SideRow::processed_on), member(rows, &SideRow::generation),
             member(rows, &SideRow::counted), member(rows, &SideRow::misconfigured_tries),
             member(rows, &SideRow::misconfigured_since), failures, delays,
             member(rows, &SideRow::last_attempt), member(rows, &SideRow::outcome_unknown),
             member(rows, &SideRow::takeovers), member(rows, &SideRow::crashes),
             member(rows, &SideRow::taken_from), member(rows, &SideRow::waits_for_recovery_epoch),
             member(rows, &SideRow::fingerprint));
}

void SideRows::erase(const std::vector<std::string>& keys) {
  if (!keys.empty()) erase_.run(outbox_, keys);
}

// A broker's answer may hold anything. Another encoding of the server's may lack a character.
std::string safe_text(const Connection& connection, const std::string& text) {
  const bool fine = text.find('\0') == std::string::npos && is_utf8(text) &&
                    (connection.is_utf8() || connection.is_ascii());
  if (fine) return text;
  std::string safe = text;
  for (char& letter : safe) {
    if (letter == '\0' || static_cast<unsigned char>(letter) >= 0x80) letter = '?';
  }
  return safe;
}

}  // namespace outbox::postgres
