#include "storage/sqlite/message_columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "storage/mapping/headers.h"
#include "storage/sqlite/identifiers.h"

namespace outbox::sqlite {
namespace {

constexpr int kOccurredOn = 7;
constexpr int kNotBefore = 8;
constexpr int kPayload = 10;

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
std::optional<std::string> attribute(const Query::Rows& rows, int index, const std::string& column,
                                     Defects& defects) {
  const SQLite::Column value = rows.column(index);
  if (value.isNull()) return std::nullopt;
  if (value.isBlob()) {
    defects.add(column, "holds a BLOB, not a text");
    return std::nullopt;
  }
  std::string text = value.getString();
  const std::size_t nul = text.find('\0');
  if (nul != std::string::npos) {
    defects.add(column, fmt::format("holds a NUL at byte {}", nul + 1));
    return std::nullopt;
  }
  if (!is_utf8(text)) {
    defects.add(column, "is not valid UTF-8");
    return std::nullopt;
  }
  return text;
}

std::string required(const Query::Rows& rows, int index, const std::string& column,
                     Defects& defects) {
  std::string text = attribute(rows, index, column, defects).value_or("");
  if (text.empty()) defects.add(column, "is empty");
  return text;
}

// Other tables may keep a GUID as its bytes.
std::optional<std::string> guid(const Query::Rows& rows, int index, const Mapping& mapping) {
  if (!mapping.foreign || !rows.column(index).isBlob()) return std::nullopt;
  return guid_text(rows.text(index), mapping.guids);
}

std::string id_of(const Query::Rows& rows, const Mapping& mapping, Defects& defects) {
  if (auto found = guid(rows, kIdColumn, mapping)) return *found;
  return required(rows, kIdColumn, mapping.columns.id, defects);
}

std::optional<std::string> key_of(const Query::Rows& rows, const Mapping& mapping,
                                  Defects& defects) {
  if (auto found = guid(rows, 2, mapping)) return found;
  return attribute(rows, 2, mapping.columns.ordering_key, defects);
}

}  // namespace

std::string message_sql(const Sql& sql, const std::string& loads, const std::string& where) {
  const Columns& c = sql.mapping().columns;
  const auto if_loaded = [&](const std::string& value) {
    return loads.empty() ? value : fmt::format("CASE WHEN {} THEN {} END", loads, value);
  };
  const std::string headers = c.headers == c.payload ? if_loaded(sql.headers()) : sql.headers();
  return fmt::format(
      "SELECT {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {} FROM {} AS o WHERE {}",
      sql.column(c.id), sql.column(c.event_type), sql.value(c.ordering_key),
      sql.value(c.destination), sql.value(c.content_type), sql.value(c.traceparent), headers,
      sql.value(c.occurred_on), sql.value(c.not_before), sql.value(c.retry_count),
      if_loaded(sql.payload()), sql.row_key(), sql.order(), sql.table(), where);
}

Message MessageColumns::read(const Query::Rows& rows, std::uint64_t payload_size, bool loads) {
  const Columns& names = mapping_.columns;
  Message message;
  Defects defects;
  message.id = id_of(rows, mapping_, defects);
  message.event_type = required(rows, 1, names.event_type, defects);
  message.ordering_key = key_of(rows, mapping_, defects);
  message.destination = attribute(rows, 3, names.destination, defects);
  message.content_type = attribute(rows, 4, names.content_type, defects);
  message.traceparent = attribute(rows, 5, names.traceparent, defects);
  const auto headers = attribute(rows, 6, names.headers, defects);
  if (headers && !headers->empty()) {
    if (const auto defect = parse_headers(*headers, message.headers)) {
      defects.add(names.headers, *defect);
    }
  }
  if (loads && rows.null(kPayload)) defects.add(names.payload, "holds no payload");
  message.defect = defects.first();
  read_times(rows, message);
  message.history.retry_count =
      static_cast<std::uint32_t>(std::clamp<std::int64_t>(rows.integer(9), 0, UINT32_MAX));
  message.payload_size = payload_size;
  if (!rows.null(kPayload)) {
    message.payload = rows.text(kPayload);
    message.payload_size = message.payload.size();
  }
  return message;
}

// Another table may know no time of an event, or not of all.
void MessageColumns::read_times(const Query::Rows& rows, Message& message) {
  const Columns& names = mapping_.columns;
  const auto note = [&](const std::string& column) {
    if (message.defect) return;
    message.defect =
        fmt::format("column {}: holds no time{}", column,
                    mapping_.foreign ? " (store.times says how numbers are read)" : "");
  };
  if (!rows.null(kOccurredOn) || !mapping_.foreign) {
    std::string occurred = rows.text(kOccurredOn);
    if (const auto time = times_.read(occurred)) {
      message.occurred_on = has_rfc3339_form(occurred) ? std::move(occurred) : to_text(*time);
      message.age = std::max<Duration>(clocks_.wall() - *time, Duration{0});
    } else {
      note(names.occurred_on);
    }
  }
  if (!rows.null(kNotBefore) && !times_.read(rows.text(kNotBefore))) note(names.not_before);
}

}  // namespace outbox::sqlite
