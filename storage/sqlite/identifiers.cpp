#include "storage/sqlite/identifiers.h"

#include <string_view>

#include "storage/mapping/headers.h"
#include "storage/mapping/row_handle.h"

namespace outbox::sqlite {
namespace {

void fingerprint(sqlite3_context* context, int, sqlite3_value** values) {
  const bool is_blob = sqlite3_value_type(values[0]) == SQLITE_BLOB;
  // The text first: asking for it may convert the value, and change its length.
  const void* bytes = is_blob ? sqlite3_value_blob(values[0]) : sqlite3_value_text(values[0]);
  const auto size = static_cast<std::size_t>(sqlite3_value_bytes(values[0]));
  const std::string_view text = bytes == nullptr
                                    ? std::string_view()
                                    : std::string_view(static_cast<const char*>(bytes), size);
  sqlite3_result_int64(context, fingerprint_of_id(text));
}

}  // namespace

void add_fingerprint_function(sqlite3* connection) {
  const int result = sqlite3_create_function_v2(connection, kFingerprintFunction, 1,
                                                SQLITE_UTF8 | SQLITE_DETERMINISTIC, nullptr,
                                                fingerprint, nullptr, nullptr, nullptr);
  if (result != SQLITE_OK) throw SQLite::Exception(connection, result);
}

std::string rendered_id(const Query::Rows& rows, int index, GuidOrder order) {
  std::string text = rows.text(index);
  const bool is_blob = rows.column(index).isBlob();
  if (is_blob) return guid_text(text, order).value_or(hex_text(text));
  const bool readable = is_utf8(text) && text.find('\0') == std::string::npos;
  return readable ? text : hex_text(text);
}

}  // namespace outbox::sqlite
