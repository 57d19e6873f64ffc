#include "storage/sqlite/identifiers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>

#include "storage/sqlite/headers.h"
#include "storage/sqlite/row_handle.h"

namespace outbox::sqlite {
namespace {

// Which byte comes when.
constexpr std::array<std::size_t, 16> kGuidOrder{3, 2, 1,  0,  5,  4,  7,  6,
                                                 8, 9, 10, 11, 12, 13, 14, 15};

std::optional<std::string> from_hex(std::string_view digits) {
  if (digits.size() % 2 != 0) return std::nullopt;
  std::string bytes(digits.size() / 2, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    unsigned char byte = 0;
    const char* const begin = digits.data() + 2 * i;
    if (std::from_chars(begin, begin + 2, byte, 16).ptr != begin + 2) return std::nullopt;
    bytes[i] = static_cast<char>(byte);
  }
  return bytes;
}

}  // namespace

// A hyphen stands after the 4th, 6th, 8th and 10th byte.
std::optional<std::string> guid_text(std::string_view bytes) {
  if (bytes.size() != kGuidOrder.size()) return std::nullopt;
  std::string text;
  for (std::size_t i = 0; i < kGuidOrder.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(bytes[kGuidOrder.at(i)]));
  }
  return text;
}

std::optional<std::string> guid_bytes(std::string_view text) {
  std::string digits;
  std::copy_if(text.begin(), text.end(), std::back_inserter(digits),
               [](char letter) { return letter != '-'; });
  const auto as_written = from_hex(digits);
  if (!as_written || as_written->size() != kGuidOrder.size()) return std::nullopt;
  std::string bytes(kGuidOrder.size(), '\0');
  for (std::size_t i = 0; i < kGuidOrder.size(); ++i) bytes[kGuidOrder.at(i)] = (*as_written)[i];
  return bytes;
}

std::string hex_text(std::string_view bytes) {
  std::string text = "x'";
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text + "'";
}

std::optional<std::string> hex_bytes(std::string_view text) {
  if (!text.starts_with("x'") || !text.ends_with('\'') || text.size() < 3) return std::nullopt;
  return from_hex(text.substr(2, text.size() - 3));
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
  const bool is_blob = rows.column(index).isBlob();
  if (is_blob) return guid_text(text).value_or(hex_text(text));
  const bool readable = is_utf8(text) && text.find('\0') == std::string::npos;
  return readable ? text : hex_text(text);
}

}  // namespace outbox::sqlite
