#include "storage/sqlite/mapping.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace outbox::sqlite {
namespace {

constexpr std::size_t kNameLengthMax = 128;

std::string doubled(const std::string& text, char quote) {
  std::string result(1, quote);
  for (const char letter : text) {
    if (letter == quote) result += quote;
    result += letter;
  }
  return result + quote;
}

bool starts_with_ignoring_case(std::string_view text, std::string_view lower_case_start) {
  if (text.size() < lower_case_start.size()) return false;
  return std::equal(
      lower_case_start.begin(), lower_case_start.end(), text.begin(),
      [](char expected, char letter) {
        return expected ==
               (letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter);
      });
}

void check_table_name(const std::string& name) {
  if (name.empty()) throw SettingsError("store.table is empty: name the outbox table");
  if (name.size() > kNameLengthMax) {
    throw SettingsError(
        fmt::format("store.table is longer than {} characters: '{}'", kNameLengthMax, name));
  }
  const bool plain = std::all_of(name.begin(), name.end(), [](char letter) {
    return static_cast<unsigned char>(letter) >= ' ' && letter != '"' && letter != '.' &&
           letter != 0x7f;
  });
  if (!plain) {
    throw SettingsError(fmt::format(
        "store.table: '{}' is no table name for SQLite: give the bare name, without a schema, "
        "quotes or control characters",
        name));
  }
  if (starts_with_ignoring_case(name, "sqlite_") ||
      starts_with_ignoring_case(name, "outbox_relay_")) {
    throw SettingsError(fmt::format("store.table: the name '{}' is reserved", name));
  }
}

}  // namespace

std::vector<std::string> Mapping::column_names() const {
  return {row_key,
          columns.id,
          columns.event_type,
          columns.ordering_key,
          columns.destination,
          columns.content_type,
          columns.headers,
          columns.traceparent,
          columns.occurred_on,
          columns.not_before,
          columns.status,
          columns.retry_count,
          columns.next_attempt,
          columns.last_error,
          columns.processed_on,
          columns.dead_letter_reason,
          columns.payload};
}

Mapping mapping_of(const StoreSettings& settings) {
  if (settings.preset != "relay") {
    throw SettingsError(
        fmt::format("store.preset: SQLite has no preset '{}'; it has: relay", settings.preset));
  }
  check_table_name(settings.table);
  Mapping mapping;
  mapping.table = settings.table;
  return mapping;
}

std::string quoted(const std::string& name) { return doubled(name, '"'); }

std::string literal(const std::string& text) { return doubled(text, '\''); }

IndexNames index_names(const Mapping& mapping) {
  return {.pending = mapping.table + "_pending",
          .failed = mapping.table + "_failed",
          .dead = mapping.table + "_dead",
          .open_key = mapping.table + "_open_key",
          .dead_key = mapping.table + "_dead_key"};
}

}  // namespace outbox::sqlite
