#include "storage/sqlite/desk_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "storage/mapping/states.h"
#include "storage/sqlite/desk_outlook.h"
#include "storage/sqlite/identifiers.h"
#include "storage/sqlite/schema.h"
#include "storage/sqlite/settler.h"

namespace outbox::sqlite {
namespace {

constexpr int kSummaryColumns = 9;  // of select_sql(); what follows them is another's
constexpr std::size_t kValueBytesMax = 64u << 10;

// Needs sql.beside().
std::string summary_columns(const Sql& sql) {
  const Columns& c = sql.mapping().columns;
  return fmt::format("{}, {}, {}, {}, coalesce(r.state, {}, ''), l.epoch IS NOT NULL, {}, {}, {}",
                     sql.row_key(), sql.column(c.id), sql.column(c.event_type),
                     sql.value(c.ordering_key), sql.state_name(),
                     Desk::either(sql.value(c.retry_count), "retry_count"),
                     Desk::either(sql.value(c.last_error), "error"), sql.value(c.occurred_on));
}

MessageSummary read_summary(Desk& desk, const Query::Rows& rows) {
  MessageSummary summary;
  summary.id = rendered_id(rows, 1, desk.sql.mapping().guids);
  summary.event_type = rows.text(2);
  summary.ordering_key = rows.text(3);
  summary.state = state_named(rows.text(4));
  summary.leased = rows.integer(5) != 0;
  summary.attempts =
      static_cast<std::uint32_t>(std::clamp<std::int64_t>(rows.integer(6), 0, UINT32_MAX));
  summary.last_error = rows.text(7);
  summary.occurred_on = desk.shown_time(rows.text(8));
  return summary;
}

// ?2 event type, ?3 key, ?4 state, ?5 limit.
std::string find_sql(const Desk& desk, const MessageFilter& filter) {
  const Sql& sql = desk.sql;
  const Columns& c = sql.mapping().columns;
  std::string where = "TRUE";
  const auto also = [&](bool wanted, const std::string& condition) {
    if (wanted) where += " AND " + condition;
  };
  also(!filter.ids.empty(), desk.wanted());
  also(!filter.event_type.empty(), sql.column(c.event_type) + " = ?2");
  also(filter.ordering_key.has_value(), sql.value(c.ordering_key) + " = ?3");
  also(filter.state.has_value(), fmt::format("coalesce(r.state, {}, '') = ?4", sql.state_name()));
  also(filter.leased, "l.epoch IS NOT NULL");
  return fmt::format("SELECT {} FROM {} AS o {} WHERE {} ORDER BY {} {} LIMIT ?5",
                     summary_columns(sql), sql.table(), sql.beside(), where, sql.order(),
                     filter.oldest_first ? "ASC" : "DESC");
}

// A value for people: a blob in hexadecimal, and of a long one its beginning.
std::optional<std::string> shown(const SQLite::Column& value) {
  if (value.isNull()) return std::nullopt;
  std::string text = value.getString();
  if (text.size() > kValueBytesMax) text.resize(kValueBytesMax);
  return value.isBlob() ? hex_text(text) : text;
}

// The columns of a row that stand at `first` and later, up to `end`.
void read_columns(const Query::Rows& rows, int first, int end, std::vector<NamedValue>& values) {
  for (int index = first; index < end; ++index) {
    const SQLite::Column value = rows.column(index);
    values.emplace_back(value.getName(), shown(value));
  }
}

// What the relay keeps beside a row, under names that people understand. Needs sql.beside().
constexpr const char* kNotes =
    "r.state AS state, r.dead_letter_reason AS dead_letter_reason, r.error AS error, r.due AS due, "
    "r.retry_count AS retry_count, r.processed_on AS processed_on, "
    "r.counted AS counted_failures, nullif(r.generation, 0) AS redrives, "
    "nullif(r.misconfigured_tries, 0) AS misconfigured_tries, "
    "r.misconfigured_since AS misconfigured_since, r.last_failure AS last_failure, "
    "r.last_attempt_at AS last_attempt_on, "
    "CASE WHEN r.outcome_unknown THEN 'yes' END AS may_have_arrived, "
    "nullif(r.takeovers, 0) AS leases_taken_over, nullif(r.crashes, 0) AS "
    "relays_that_died_with_it, "
    "CASE WHEN l.alone THEN 'yes' END AS leased_alone";
constexpr int kNoteColumns = 16;

// What was recorded of one row in the relay's own tables.
class History {
 public:
  explicit History(Desk& desk)
      : desk_(desk),
        attempts_(desk.connection.database(),
                  "SELECT at, outcome, reason FROM outbox_relay_attempts "
                  "WHERE outbox = ?1 AND row_key = ?2 ORDER BY rowid"),
        audit_(desk.connection.database(),
               "SELECT at, action, reason FROM outbox_relay_audit "
               "WHERE outbox = ?1 AND row_key = ?2 ORDER BY rowid") {}

  void read(const Value& key, MessageDetail& detail) {
    auto attempts = attempts_.rows(desk_.outbox, key);
    while (attempts.next()) {
      detail.attempts.push_back({attempts.text(0), attempts.text(1), attempts.text(2)});
    }
    auto entries = audit_.rows(desk_.outbox, key);
    while (entries.next()) {
      detail.audit.push_back(
          {detail.summary.id, entries.text(0), entries.text(1), entries.text(2)});
    }
  }

 private:
  Desk& desk_;
  Query attempts_;
  Query audit_;
};

std::string payload_sql(const Sql& sql) {
  return fmt::format("SELECT substr(CAST({} AS BLOB), 1, ?2) FROM {} AS o WHERE {} = ?1",
                     sql.payload(), sql.table(), sql.order());
}

// The columns of a shown row.
constexpr int kOrderingKey = 3;
constexpr int kPlace = kSummaryColumns;
constexpr int kHeaders = kPlace + 1;
constexpr int kWaiting = kHeaders + 1;
constexpr int kNotesBegin = kWaiting + WaitingColumns::kCount;
constexpr int kOwnColumns = kNotesBegin + kNoteColumns;

// All columns but the payload, which is not read unless it is asked for.
std::string other_columns(Desk& desk) {
  std::string columns;
  for (const TableColumn& column : columns_of(desk.connection, desk.outbox)) {
    if (column.name == desk.sql.mapping().columns.payload) continue;
    columns += ", " + desk.sql.column(column.name);
  }
  return columns;
}

std::string show_sql(Desk& desk) {
  const Sql& sql = desk.sql;
  return fmt::format("SELECT {}, {}, {}, {}, {}{} FROM {} AS o {} WHERE {} ORDER BY {}",
                     summary_columns(sql), sql.order(), sql.headers(), WaitingColumns::sql(sql),
                     kNotes, other_columns(desk), sql.table(), sql.beside(), desk.wanted(),
                     sql.order());
}

MessageDetail read_detail(Desk& desk, const Query::Rows& rows) {
  MessageDetail detail;
  detail.summary = read_summary(desk, rows);
  detail.headers = shown(rows.column(kHeaders)).value_or("");
  read_columns(rows, kOwnColumns, rows.size(), detail.columns);
  read_columns(rows, kNotesBegin, kOwnColumns, detail.beside);
  std::erase_if(detail.beside, [](const NamedValue& value) { return !value.second; });
  return detail;
}

// A time as people give it. Throws Unusable.
std::optional<WallTime> bound(const std::string& text) {
  if (text.empty()) return std::nullopt;
  if (const auto time = parse_time(text)) return time;
  throw Unusable(fmt::format("'{}' is no time: write it as 2026-11-30T18:00:00Z", text));
}

}  // namespace

std::vector<MessageSummary> find_messages(Desk& desk, const MessageFilter& filter) {
  const auto since = bound(filter.since);
  const auto until = bound(filter.until);
  if (!filter.ids.empty()) desk.want(filter.ids);
  std::vector<MessageSummary> result;
  Query query(desk.connection.database(), find_sql(desk, filter));
  // Times are compared here, since a table may keep them in any form.
  constexpr int kNoLimit = -1;
  const bool timed = since || until;
  auto rows = query.rows(desk.outbox, filter.event_type, filter.ordering_key.value_or(""),
                         name_in_database(filter.state.value_or(MessageState::unknown)),
                         timed ? std::int64_t{kNoLimit} : static_cast<std::int64_t>(filter.limit));
  while (result.size() < filter.limit && rows.next()) {
    MessageSummary summary = read_summary(desk, rows);
    if (timed) {
      const auto occurred = desk.times.read(summary.occurred_on);
      if (!occurred || (since && *occurred < *since) || (until && *occurred >= *until)) continue;
    }
    result.push_back(std::move(summary));
  }
  return result;
}

std::vector<MessageDetail> show_message(Desk& desk, const std::string& id,
                                        std::uint64_t payload_max) {
  const Sql& sql = desk.sql;
  Transaction snapshot(desk.connection, Transaction::Kind::read);
  desk.want({id});
  Query query(desk.connection.database(), show_sql(desk));
  Query payload(desk.connection.database(), payload_sql(sql));
  History history(desk);
  Outlooks outlooks(desk);
  SizeProbe sizes(desk.connection, sql.mapping().table, sql.mapping().columns.payload);
  std::vector<MessageDetail> result;
  auto rows = query.rows(desk.outbox);
  while (rows.next()) {
    MessageDetail detail = read_detail(desk, rows);
    const std::int64_t place = rows.integer(kPlace);
    detail.payload_size = sizes.bytes(place);
    if (payload_max > 0) {
      auto found = payload.rows(place, payload_max);
      if (found.next()) detail.payload = found.text(0);
    }
    if (const auto key = rows.value(0)) {
      detail.outlook = outlooks.of({.key = *key,
                                    .place = place,
                                    .ordering_key = rows.value(kOrderingKey),
                                    .state = detail.summary.state,
                                    .leased = detail.summary.leased,
                                    .waiting = WaitingColumns::read(rows, kWaiting)});
      history.read(*key, detail);
    }
    result.push_back(std::move(detail));
  }
  sizes.close();
  return result;
}

std::vector<AuditRecord> audit_trail(Desk& desk, const std::string& id) {
  // The audit has ids as they are shown, shortened: a GUID kept as bytes in lower case.
  const GuidOrder guids = desk.sql.mapping().guids;
  const auto bytes = guid_bytes(id, guids);
  Query query(desk.connection.database(),
              "SELECT event_id, at, action, reason FROM outbox_relay_audit "
              "WHERE outbox = ?1 AND event_id IN (?2, ?3) ORDER BY rowid");
  std::vector<AuditRecord> result;
  auto rows =
      query.rows(desk.outbox, shortened(id), bytes ? guid_text(*bytes, guids).value_or(id) : id);
  while (rows.next()) {
    result.push_back({rows.text(0), rows.text(1), rows.text(2), rows.text(3)});
  }
  return result;
}

}  // namespace outbox::sqlite
