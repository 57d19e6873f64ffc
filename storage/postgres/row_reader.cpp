#include "storage/postgres/row_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "storage/mapping/headers.h"
#include "storage/mapping/identifiers.h"
#include "storage/mapping/time_forms.h"

namespace outbox::postgres {
namespace {

// No column but the payload may hold more than this, so that a row takes a bounded amount of
// memory.
constexpr int kValueBytesMax = 1 << 20;

// From the first column of a message on.
enum Column {
  kFingerprint,
  kId,
  kEventType,
  kOrderingKey,
  kDestination,
  kContentType,
  kTraceparent,
  kHeaders,
  kOccurred,
  kOccurredText,
  kRetryCount,
  kPayloadSize,
  kPayload,
  kTooLarge
};

// Columns before those.
enum LoadColumn { kKey, kPlace, kMessage };

std::string load_sql(const Sql& sql) {
  const std::string state = fmt::format("coalesce(r.state, '{}')", state::kPending);
  return fmt::format(
      "SELECT {}, {}, {} FROM unnest($2) AS x(key) JOIN {} ON {} = {} {} "
      "WHERE {} AND {} IN ('{}', '{}')",
      sql.key_text(), sql.place(), message_columns(sql, {"$3", kValueBytesMax, "true"}), sql.from(),
      sql.row_key(), sql.as_key("x.key"), sql.side_row(), sql.is_open(), state, state::kPending,
      state::kFailed);
}

}  // namespace

// The columns of a message, from one of a row's columns on.
class MessageFields {
 public:
  MessageFields(const Rows& rows, int first) : rows_(rows), first_(first) {}
  bool null(int column) const { return rows_.null(first_ + column); }
  std::string text(int column) const { return rows_.text(first_ + column); }
  std::int64_t integer(int column) const { return rows_.integer(first_ + column); }
  bool boolean(int column) const { return rows_.boolean(first_ + column); }
  ServerTime time(int column) const { return rows_.time(first_ + column); }
  std::uint32_t fingerprint() const { return static_cast<std::uint32_t>(integer(kFingerprint)); }

 private:
  const Rows& rows_;
  int first_;
};

namespace {

// Collects the first thing that is wrong with a row.
class Defects {
 public:
  void add(const std::string& column, const std::string& what) {
    if (!first_) first_ = fmt::format("column {}: {}", column, what);
  }
  std::optional<std::string> first() const { return first_; }

 private:
  std::optional<std::string> first_;
};

// A text fit to be an attribute of a message.
std::optional<std::string> attribute(const MessageFields& rows, int index,
                                     const std::string& column, Defects& defects) {
  if (rows.null(index)) return std::nullopt;
  std::string text = rows.text(index);
  if (const std::size_t nul = text.find('\0'); nul != std::string::npos) {
    defects.add(column, fmt::format("holds a NUL at byte {}", nul + 1));
    return std::nullopt;
  }
  if (!is_utf8(text)) {
    defects.add(column, "is not valid UTF-8");
    return std::nullopt;
  }
  return text;
}

// The same, of an id or a key, which may be the bytes of a GUID.
std::optional<std::string> identifier(const MessageFields& rows, int index,
                                      const std::string& column, bool bytes, GuidOrder guids,
                                      Defects& defects) {
  if (bytes && !rows.null(index)) {
    if (auto guid = guid_text(rows.text(index), guids)) return guid;
  }
  return attribute(rows, index, column, defects);
}

std::string required(std::optional<std::string> text, const std::string& column, Defects& defects) {
  if (!text || text->empty()) defects.add(column, "is empty");
  return text.value_or("");
}

bool is_bytes(const Sql& sql, const std::string& column) {
  return sql.table().type_of(column) == "bytea";
}

WallTime wall(ServerTime time) { return std::chrono::floor<std::chrono::milliseconds>(time); }

// CAP's column Content is a JSON object of headers and the value.
bool is_cap(const Columns& columns) {
  return !columns.headers.empty() && columns.headers == columns.payload;
}

void take_cap_apart(Message& message, const std::string& column, Defects& defects) {
  const auto content = nlohmann::ordered_json::parse(message.payload, nullptr, false);
  if (!content.is_object() || !content.contains("Value")) {
    message.payload.clear();
    defects.add(column, "holds no JSON object with a Value");
    return;
  }
  const auto& value = content["Value"];
  message.payload = value.is_string() ? value.get<std::string>() : value.dump();
  message.payload_size = message.payload.size();
  if (!content.contains("Headers") || !content["Headers"].is_object()) return;
  for (const auto& [name, header] : content["Headers"].items()) {
    if (header.is_null()) continue;
    message.headers.push_back(
        {name, header.is_string() ? header.get<std::string>() : header.dump()});
  }
}

}  // namespace

std::string message_columns(const Sql& sql, const MessageBounds& bounds) {
  const Columns& c = sql.mapping().columns;
  std::string values;
  std::string too_large = "false";
  for (const std::string& name : {c.id, c.event_type, c.ordering_key, c.destination, c.content_type,
                                  c.traceparent, is_cap(c) ? std::string() : c.headers}) {
    const std::string text = sql.text(name);
    const bool bounded = name != c.payload;
    values += fmt::format("CASE WHEN octet_length({0}) <= {1} THEN {0} END, ", text,
                          bounded ? std::to_string(bounds.value)
                                  : fmt::format("greatest({}, {})", bounds.payload, bounds.value));
    if (bounded)
      too_large += fmt::format(" OR coalesce(octet_length({}) > {}, false)", text, bounds.value);
  }
  const bool is_time = sql.time(c.occurred_on) != "NULL::timestamptz";
  return fmt::format(
      "{}, {}{}, {}, coalesce({}, 0)::int8, coalesce({}, 0)::int8, "
      "CASE WHEN {} AND {} <= {} THEN {} END, {}",
      sql.fingerprint(), values, sql.time(c.occurred_on),
      is_time || c.occurred_on.empty() ? "NULL::text" : sql.column(c.occurred_on) + "::text",
      sql.value(c.retry_count), sql.payload_size(), bounds.condition, sql.payload_size(),
      bounds.payload, sql.payload(), too_large);
}

RowReader::RowReader(Connection& connection, const Sql& sql, SideRows& side_rows)
    : sql_(sql),
      outbox_(sql.outbox()),
      id_is_bytes_(is_bytes(sql, sql.mapping().columns.id)),
      key_is_bytes_(is_bytes(sql, sql.mapping().columns.ordering_key)),
      side_rows_(side_rows),
      load_(connection, load_sql(sql)),
      notes_(connection, fmt::format("SELECT row_key, coalesce(fingerprint, {}) FROM {} "
                                     "WHERE outbox = $1 AND row_key = ANY($2)",
                                     kAnyFingerprint, sql.rows())),
      leased_(connection,
              fmt::format("SELECT l.row_key, l.alone, l.noted, r.row_key IS NOT NULL FROM {} AS l "
                          "LEFT JOIN {} AS r ON r.outbox = l.outbox AND r.row_key = l.row_key "
                          "WHERE l.outbox = $1 AND l.incarnation = $2 AND l.epoch = $3",
                          sql.leases(), sql.rows())) {}

std::vector<Message> RowReader::load(const std::vector<Picked>& rows, LeaseId lease,
                                     std::uint64_t payload_max, ServerTime now) {
  if (rows.empty()) return {};
  return messages(find(rows, payload_max).rows(), rows, lease, payload_max, now);
}

Ahead RowReader::find(const std::vector<Picked>& rows, std::uint64_t payload_max) {
  std::vector<std::string> keys;
  for (const Picked& row : rows) keys.push_back(row.key);
  return load_.send(outbox_, keys, payload_max);
}

Ahead RowReader::find_notes(const std::vector<Picked>& rows) {
  std::vector<std::string> keys;
  keys.reserve(rows.size());
  for (const Picked& row : rows) keys.push_back(row.key);
  return notes_.send(outbox_, keys);
}

std::unordered_set<std::string> RowReader::noted(Rows notes, Rows& rows, int first,
                                                 const std::vector<Picked>& leased) {
  std::unordered_map<std::string, SideRow> sides;
  while (notes.next()) {
    sides[notes.text(0)].fingerprint = static_cast<std::uint32_t>(notes.integer(1));
  }
  std::unordered_set<std::string> noted;
  if (sides.empty()) return noted;
  const MessageFields fields(rows, first);
  for (const Picked& row : leased) {
    rows.go_to(row.loaded.value());
    const auto side = sides.find(row.key);
    if (side != sides.end() && side->second.is_of(fields.fingerprint())) noted.insert(row.key);
  }
  return noted;
}

std::vector<Message> RowReader::messages(Rows found, const std::vector<Picked>& leased,
                                         LeaseId lease, std::uint64_t payload_max, ServerTime now) {
  std::vector<std::string> noted;
  std::unordered_map<std::string, const Picked*> picked;
  for (const Picked& row : leased) {
    if (row.noted) noted.push_back(row.key);
    picked[row.key] = &row;
  }
  const auto sides = side_rows_.read(noted);
  std::vector<std::pair<Place, Message>> placed;
  while (found.next()) {
    const std::string key = found.text(kKey);
    const auto row = picked.find(key);
    if (row == picked.end()) continue;
    const Place place{found.integer(kPlace), sql_.tie() == "''" ? "" : key};
    const MessageFields fields(found, kMessage);
    Message message = read(fields, payload_max, now);
    message.row = to_row_id(key, place.number, fields.fingerprint());
    message.lease = lease;
    message.alone = row->second->alone;
    const auto side = sides.find(key);
    if (side != sides.end() && side->second.is_of(fields.fingerprint())) {
      read_history(side->second, now, message);
    }
    placed.emplace_back(place, std::move(message));
  }
  std::sort(placed.begin(), placed.end(),
            [](const auto& one, const auto& other) { return one.first < other.first; });
  std::vector<Message> messages;
  for (auto& [place, message] : placed) messages.push_back(std::move(message));
  return messages;
}

std::vector<Message> RowReader::loaded_messages(Rows& rows, int first,
                                                const std::vector<Picked>& leased, LeaseId lease,
                                                std::uint64_t payload_max, ServerTime now) {
  std::vector<Message> messages;
  messages.reserve(leased.size());
  const MessageFields fields(rows, first);
  for (const Picked& row : leased) {
    rows.go_to(row.loaded.value());
    Message message = read(fields, payload_max, now);
    message.row = to_row_id(row.key, row.place.number, fields.fingerprint());
    message.lease = lease;
    message.alone = row.alone;
    messages.push_back(std::move(message));
  }
  return messages;
}

Message RowReader::read(const MessageFields& rows, std::uint64_t payload_max,
                        ServerTime now) const {
  const Columns& names = sql_.mapping().columns;
  Message message;
  Defects defects;
  if (rows.boolean(kTooLarge)) {
    message.defect = fmt::format("a column holds more than {} bytes", kValueBytesMax);
  }
  message.id =
      required(identifier(rows, kId, names.id, id_is_bytes_, sql_.mapping().guids, defects),
               names.id, defects);
  message.event_type =
      required(attribute(rows, kEventType, names.event_type, defects), names.event_type, defects);
  message.ordering_key = identifier(rows, kOrderingKey, names.ordering_key, key_is_bytes_,
                                    sql_.mapping().guids, defects);
  message.destination = attribute(rows, kDestination, names.destination, defects);
  message.content_type = attribute(rows, kContentType, names.content_type, defects);
  message.traceparent = attribute(rows, kTraceparent, names.traceparent, defects);
  message.payload_size = static_cast<std::uint64_t>(rows.integer(kPayloadSize));
  const bool loads = message.payload_size <= payload_max;
  if (!rows.null(kPayload)) message.payload = rows.text(kPayload);
  if (loads && rows.null(kPayload)) defects.add(names.payload, "holds no payload");
  if (is_cap(names)) {
    if (loads && !rows.null(kPayload)) take_cap_apart(message, names.payload, defects);
  } else if (const auto headers = attribute(rows, kHeaders, names.headers, defects);
             headers && !headers->empty()) {
    if (const auto defect = parse_headers(*headers, message.headers)) {
      defects.add(names.headers, *defect);
    }
  }
  std::optional<WallTime> occurred;
  if (!rows.null(kOccurred)) {
    occurred = from_milliseconds(
        static_cast<double>(wall(rows.time(kOccurred)).time_since_epoch().count()));
    if (!occurred) defects.add(names.occurred_on, "holds no time of the years 0 to 9999");
  }
  if (!rows.null(kOccurredText)) {
    occurred = read_time(rows.text(kOccurredText), sql_.mapping().times);
    if (!occurred) defects.add(names.occurred_on, "holds no time");
  }
  if (occurred) {
    message.occurred_on = to_text(*occurred);
    message.age = std::max<Duration>(wall(now) - *occurred, Duration{0});
  }
  if (!message.defect) message.defect = defects.first();
  message.history.retry_count = static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(rows.integer(kRetryCount), 0, UINT32_MAX));
  return message;
}

void RowReader::read_history(const SideRow& side, ServerTime now, Message& message) {
  const auto since = [&](ServerTime time) { return std::max<Duration>(now - time, Duration{0}); };
  message.generation = side.generation;
  RowHistory& history = message.history;
  if (side.state) {
    history.retry_count = static_cast<std::uint32_t>(side.retry_count.value_or(0));
  }
  history.counted = side.counted;
  history.misconfigured_tries = side.misconfigured_tries;
  history.last_failure = side.last_failure;
  history.last_delay = side.last_delay;
  history.outcome_unknown = side.outcome_unknown;
  if (side.last_attempt) history.since_last_attempt = since(*side.last_attempt);
  if (side.misconfigured_since) history.misconfigured_for = since(*side.misconfigured_since);
}

// Rows that something was noted beside while they were leased are left: see find_notes().
Leased RowReader::leased_under(std::int64_t incarnation, LeaseId epoch) {
  Leased result;
  result.epoch = epoch;
  Rows rows = leased_.rows(outbox_, incarnation, epoch);
  while (rows.next()) {
    const bool noted = rows.boolean(2);
    if (rows.boolean(3) && !noted) {
      result.left.push_back(rows.text(0));
    } else {
      result.rows.push_back({rows.text(0), {}, rows.boolean(1), noted, {}, {}, {}});
    }
  }
  return result;
}

}  // namespace outbox::postgres
