#include "storage/sqlite/identifiers.h"

#include <fmt/format.h>

#include <array>

#include "storage/sqlite/row_handle.h"

namespace outbox::sqlite {

std::optional<std::string> guid_text(std::string_view bytes) {
  // Which byte comes when; a hyphen stands after the 4th, 6th, 8th and 10th.
  constexpr std::array<std::size_t, 16> order{3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15};
  if (bytes.size() != order.size()) return std::nullopt;
  std::string text;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(bytes[order.at(i)]));
  }
  return text;
}

namespace {

void fingerprint(sqlite3_context* context, int, sqlite3_value** values) {
  const bool is_blob = sqlite3_value_type(values[0]) == SQLITE_BLOB;
  // The text first: asking for it may convert the value, and change its length.
  const void* bytes = is_blob ? sqlite3_value_blob(values[0]) : sqlite3_value_text(values[0]);
  const auto size = static_cast<std::size_t>(sqlite3_value_bytes(values[0]));
  const std::string_view text = bytes == nullptr
                                    ? std::string_view()
                                    : std::string_view(static_cast<const char*>(bytes), size);
  const auto guid = is_blob ? guid_text(text) : std::nullopt;
  sqlite3_result_int64(context, guid ? fingerprint_of_id(*guid) : fingerprint_of_id(text));
}

}  // namespace

void add_fingerprint_function(sqlite3* connection) {
  const int result = sqlite3_create_function_v2(connection, kFingerprintFunction, 1,
                                                SQLITE_UTF8 | SQLITE_DETERMINISTIC, nullptr,
                                                fingerprint, nullptr, nullptr, nullptr);
  if (result != SQLITE_OK) throw SQLite::Exception(connection, result);
}

std::string rendered_id(const Query::Rows& rows, int index) {
  std::string text = rows.text(index);
  if (!rows.column(index).isBlob()) return text;
  return guid_text(text).value_or(text);
}

}  // namespace outbox::sqlite
