#include "storage/postgres/desk_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "storage/mapping/attempt_text.h"
#include "storage/mapping/identifiers.h"
#include "storage/mapping/states.h"
#include "storage/mapping/time_forms.h"
#include "storage/postgres/desk_outlook.h"

namespace outbox::postgres {
namespace {

constexpr int kSummaryColumns = 9;  // of summary_columns(); what follows them is another's
constexpr int kFetchedAtOnce = 1000;
constexpr std::size_t kValueBytesMax = 64u << 10;

// What the table's own columns say of such a row; "false" for a state that it can't have.
std::string own_condition(const Sql& sql, MessageState state) {
  switch (state) {
    case MessageState::pending:
      return sql.is_pending();
    case MessageState::failed:
      return sql.is_failed();
    case MessageState::processed:
      return sql.is_processed();
    case MessageState::dead_lettered:
      return sql.is_dead();
    case MessageState::skipped:
      return "false";
    case MessageState::unknown:
      return sql.state_name() + " IS NULL";
  }
  return "true";
}

// Needs sql.beside().
std::string summary_columns(const Desk& desk) {
  const Sql& sql = desk.sql;
  const Columns& c = sql.mapping().columns;
  return fmt::format(
      "{} AS m_key, {} AS m_id, {} AS m_type, {} AS m_okey, {} AS m_state, "
      "l.epoch IS NOT NULL AS m_leased, ({})::int8 AS m_attempts, {} AS m_error, {} AS m_occurred",
      sql.key_text(), sql.text(c.id), sql.text(c.event_type), sql.text(c.ordering_key),
      sql.whole_state(), Desk::either(sql.value(c.retry_count), "retry_count"),
      Desk::either(sql.text(c.last_error), "error"), desk.readable(c.occurred_on));
}

MessageSummary read_summary(const Desk& desk, const Rows& rows) {
  const Columns& c = desk.sql.mapping().columns;
  MessageSummary summary;
  summary.id = desk.shown_id(c.id, rows.text(1));
  summary.event_type = rows.text(2);
  summary.ordering_key = desk.shown_id(c.ordering_key, rows.text(3));
  summary.state = state_named(rows.text(4));
  summary.leased = rows.boolean(5);
  summary.attempts =
      static_cast<std::uint32_t>(std::clamp<std::int64_t>(rows.integer(6), 0, UINT32_MAX));
  summary.last_error = rows.text(7);
  summary.occurred_on = desk.shown_time(rows.text(8));
  return summary;
}

// Whether the server can compare the times of events; else we do it.
bool has_times(const Desk& desk) {
  return desk.sql.time(desk.sql.mapping().columns.occurred_on) != "NULL::timestamptz";
}

// $2 event type, $3 key, $4 state, $5 limit, $6 ids, $7 and $8 times.
std::string conditions(const Desk& desk, const MessageFilter& filter, const Wanted& wanted) {
  const Columns& c = desk.sql.mapping().columns;
  std::string where = "true";
  const auto also = [&](bool asked, const std::string& condition) {
    if (asked) where += " AND " + condition;
  };
  also(!filter.ids.empty(), wanted.condition);
  also(!filter.event_type.empty(), desk.equals(c.event_type, "$2"));
  also(filter.ordering_key.has_value(), desk.equals(c.ordering_key, "$3"));
  also(filter.state.has_value(), desk.sql.whole_state() + " = $4");
  also(filter.leased, "l.epoch IS NOT NULL");
  const std::string occurred = desk.sql.time(c.occurred_on);
  also(!filter.since.empty() && has_times(desk), occurred + " >= $7");
  also(!filter.until.empty() && has_times(desk), occurred + " < $8");
  return where;
}

// A state is looked for where it may stand, the row or beside it, so that indexes help.
std::string find_sql(const Desk& desk, const MessageFilter& filter, const Wanted& wanted) {
  const Sql& sql = desk.sql;
  const std::string where = conditions(desk, filter, wanted);
  const std::string direction = filter.oldest_first ? "" : " DESC";
  const std::string half = fmt::format(
      "(SELECT {} AS p1, {} AS p2, {} FROM {} {} WHERE {} AND {{}} ORDER BY {} LIMIT $5)",
      sql.column(sql.mapping().order), sql.row_key(), summary_columns(desk), sql.from(),
      sql.beside(), where, filter.oldest_first ? sql.order() : sql.order_descending());
  std::string found = fmt::format(fmt::runtime(half), "true");
  if (filter.state) {
    const std::string own = own_condition(sql, *filter.state);
    const std::string beside =
        fmt::format("NOT coalesce({}, false) AND {} = ANY({})", own, sql.row_key(),
                    sql.as_keys(fmt::format("ARRAY(SELECT s.row_key FROM {} AS s WHERE "
                                            "s.outbox = $1 AND s.state IS NOT NULL "
                                            "AND s.state = $4)",
                                            sql.rows())));
    found = fmt::format("{} UNION ALL {}", fmt::format(fmt::runtime(half), own),
                        fmt::format(fmt::runtime(half), beside));
  }
  return fmt::format(
      "SELECT m_key, m_id, m_type, m_okey, m_state, m_leased, m_attempts, m_error, m_occurred "
      "FROM ({0}) AS m ORDER BY p1{1}, p2{1} LIMIT $5",
      found, direction);
}

// What the relay keeps beside a row, under names that people understand. Needs sql.beside().
struct Note {
  const char* name;
  const char* sql;
  bool time = false;
};
constexpr std::array<Note, 16> kNotes{
    {{"state", "r.state"},
     {"dead_letter_reason", "r.dead_letter_reason"},
     {"error", "r.error"},
     {"due", "r.due", true},
     {"retry_count", "r.retry_count"},
     {"processed_on", "r.processed_on", true},
     {"counted_failures", "r.counted"},
     {"redrives", "nullif(r.generation, 0)"},
     {"misconfigured_tries", "nullif(r.misconfigured_tries, 0)"},
     {"misconfigured_since", "r.misconfigured_since", true},
     {"last_failure", "r.last_failure"},
     {"last_attempt_on", "r.last_attempt_at", true},
     {"may_have_arrived", "CASE WHEN r.outcome_unknown THEN 'yes' END"},
     {"leases_taken_over", "nullif(r.takeovers, 0)"},
     {"relays_that_died_with_it", "nullif(r.crashes, 0)"},
     {"leased_alone", "CASE WHEN l.alone THEN 'yes' END"}}};

std::string note_columns() {
  std::string columns;
  for (const Note& note : kNotes) {
    columns += ", " + (note.time ? rfc3339(note.sql) : fmt::format("({})::text", note.sql));
  }
  return columns;
}

// The columns of a shown row.
constexpr int kHasOrderingKey = kSummaryColumns;
constexpr int kHeaders = kHasOrderingKey + 1;
constexpr int kPayloadSize = kHeaders + 1;
constexpr int kPayload = kPayloadSize + 1;
constexpr int kWaiting = kPayload + 1;
constexpr int kNotesBegin = kWaiting + WaitingColumns::kCount;
constexpr int kOwnColumns = kNotesBegin + static_cast<int>(kNotes.size());

// All columns but the payload.
std::vector<std::string> other_columns(const Desk& desk) {
  std::vector<std::string> names;
  for (const TableColumn& column : desk.sql.table().columns) {
    if (column.name != desk.sql.mapping().columns.payload) names.push_back(column.name);
  }
  return names;
}

// The beginning of the payload, of which the server sends no more than it must; $3 says how long.
std::string payload_sql(const Sql& sql) {
  const bool bytes = sql.table().type_of(sql.mapping().columns.payload) == "bytea";
  return fmt::format("CASE WHEN $3 > 0 THEN {}({}, {}$3::int4) END", bytes ? "substring" : "left",
                     sql.payload(), bytes ? "1, " : "");
}

std::string show_sql(const Desk& desk, const Wanted& wanted) {
  const Sql& sql = desk.sql;
  const Columns& c = sql.mapping().columns;
  std::string own;
  for (const std::string& name : other_columns(desk)) {
    own += fmt::format(", left({}, {})", desk.readable(name), kValueBytesMax);
  }
  return fmt::format(
      "SELECT {}, {} IS NOT NULL, left({}, {}), {}::int8, {}, {}{}{} FROM {} {} WHERE {} "
      "ORDER BY {}",
      summary_columns(desk), sql.value(c.ordering_key), sql.text(c.headers), kValueBytesMax,
      sql.payload_size(), payload_sql(sql), WaitingColumns::sql(desk), note_columns(), own,
      sql.from(), sql.beside(), wanted.condition, sql.order());
}

MessageDetail read_detail(const Desk& desk, const Rows& rows, std::uint64_t payload_max) {
  MessageDetail detail;
  detail.summary = read_summary(desk, rows);
  detail.headers = rows.text(kHeaders);
  detail.payload_size = static_cast<std::uint64_t>(rows.integer(kPayloadSize));
  if (payload_max > 0) {
    detail.payload = rows.text(kPayload);
    if (detail.payload->size() > payload_max) detail.payload->resize(payload_max);
  }
  for (std::size_t i = 0; i < kNotes.size(); ++i) {
    auto value = rows.maybe_text(kNotesBegin + static_cast<int>(i));
    if (value) detail.beside.emplace_back(kNotes.at(i).name, std::move(value));
  }
  int index = kOwnColumns;
  for (const std::string& name : other_columns(desk)) {
    detail.columns.emplace_back(name, rows.maybe_text(index++));
  }
  return detail;
}

// What was recorded of one row in the relay's own tables.
void read_history(Desk& desk, const std::string& key, MessageDetail& detail) {
  const auto log = [&](const std::string& columns, const std::string& table) {
    return ask(desk.connection,
               fmt::format("SELECT {}, {}, reason FROM {} WHERE outbox = $1 AND row_key = $2 "
                           "ORDER BY at, ctid",
                           rfc3339("at"), columns, table),
               desk.outbox, key);
  };
  Rows attempts = log("outcome", desk.sql.attempts());
  while (attempts.next()) {
    detail.attempts.push_back({attempts.text(0), attempts.text(1), attempts.text(2)});
  }
  Rows entries = log("action", desk.sql.audit());
  while (entries.next()) {
    detail.audit.push_back({detail.summary.id, entries.text(0), entries.text(1), entries.text(2)});
  }
}

// A time as people give it. Throws Unusable.
std::optional<ServerTime> bound(const std::string& text) {
  if (text.empty()) return std::nullopt;
  if (const auto time = parse_time(text)) return ServerTime(*time);
  throw Unusable(fmt::format("'{}' is no time: write it as 2026-11-30T18:00:00Z", text));
}

}  // namespace

std::vector<MessageSummary> find_messages(Desk& desk, const MessageFilter& filter) {
  const auto since = bound(filter.since);
  const auto until = bound(filter.until);
  const Wanted wanted = desk.wanted(filter.ids, "$6");
  const bool compare = (since || until) && !has_times(desk);
  const auto limit = compare ? INT64_MAX : static_cast<std::int64_t>(filter.limit);
  std::vector<MessageSummary> result;
  Transaction look(desk.connection, Transaction::Kind::read);
  ask(desk.connection, "DECLARE found NO SCROLL CURSOR FOR " + find_sql(desk, filter, wanted),
      desk.outbox, filter.event_type, filter.ordering_key.value_or(""),
      name_in_database(filter.state.value_or(MessageState::unknown)), limit, wanted.ids, since,
      until);
  Query more(desk.connection, fmt::format("FETCH {} FROM found", kFetchedAtOnce));
  for (int fetched = 1; fetched > 0 && result.size() < filter.limit;) {
    Rows rows = more.rows();
    fetched = rows.size();
    while (result.size() < filter.limit && rows.next()) {
      MessageSummary summary = read_summary(desk, rows);
      if (compare) {
        const auto occurred = read_time(summary.occurred_on, desk.sql.mapping().times);
        if (!occurred || (since && *occurred < *since) || (until && *occurred >= *until)) continue;
      }
      result.push_back(std::move(summary));
    }
  }
  look.commit();
  return result;
}

std::vector<MessageDetail> show_message(Desk& desk, const std::string& id,
                                        std::uint64_t payload_max) {
  const Wanted wanted = desk.wanted({id}, "$2");
  Snapshot snapshot(desk.connection);
  Outlooks outlooks(desk);
  std::vector<MessageDetail> result;
  const auto most = static_cast<std::int64_t>(std::min<std::uint64_t>(payload_max, INT32_MAX));
  Rows rows = ask(desk.connection, show_sql(desk, wanted), desk.outbox, wanted.ids, most);
  while (rows.next()) {
    MessageDetail detail = read_detail(desk, rows, payload_max);
    const std::string key = rows.text(0);
    detail.outlook = outlooks.of({.key = key,
                                  .has_ordering_key = rows.boolean(kHasOrderingKey),
                                  .state = detail.summary.state,
                                  .leased = detail.summary.leased,
                                  .waiting = WaitingColumns::read(rows, kWaiting)});
    read_history(desk, key, detail);
    result.push_back(std::move(detail));
  }
  snapshot.end();
  return result;
}

std::vector<AuditRecord> audit_trail(Desk& desk, const std::string& id) {
  // The audit has ids as they are shown, shortened: a GUID kept as bytes in lower case.
  const GuidOrder guids = desk.sql.mapping().guids;
  const auto bytes = guid_bytes(id, guids);
  std::vector<AuditRecord> result;
  Transaction look(desk.connection, Transaction::Kind::read);
  Rows rows = ask(desk.connection,
                  fmt::format("SELECT event_id, {}, action, reason FROM {} "
                              "WHERE outbox = $1 AND event_id IN ($2, $3) ORDER BY at, ctid",
                              rfc3339("at"), desk.sql.audit()),
                  desk.outbox, shortened(id), bytes ? guid_text(*bytes, guids).value_or(id) : id);
  while (rows.next()) {
    result.push_back({rows.text(0), rows.text(1), rows.text(2), rows.text(3)});
  }
  look.commit();
  return result;
}

}  // namespace outbox::postgres
