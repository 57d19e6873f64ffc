#include "storage/mapping/row_handle.h"

#include <fmt/format.h>

#include <charconv>

namespace outbox {

// FNV-1a, 32 bits (Fowler, Noll, Vo): enough to tell one row from another in the same place.
std::uint32_t fingerprint_of_id(std::string_view event_id) {
  std::uint32_t hash = 2166136261u;
  for (const char character : event_id) {
    hash = (hash ^ static_cast<unsigned char>(character)) * 16777619u;
  }
  return hash == kAnyFingerprint ? 1 : hash;
}

RowId to_row_id(const Value& key, std::int64_t place, std::uint32_t fingerprint) {
  std::string id = fmt::format("{}-{:08x}", place, fingerprint);
  if (const auto* number = std::get_if<std::int64_t>(&key)) {
    if (*number != place) id += fmt::format("-i{}", *number);
  } else if (const auto* text = std::get_if<std::string>(&key)) {
    id += "-t" + *text;
  } else {
    id += "-b" + std::get<Blob>(key).bytes;
  }
  return id;
}

namespace {

// Reads a number from the start of `text` and takes it away.
template <class Number>
std::optional<Number> take_number(std::string_view& text, int base) {
  Number number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
  return number;
}

std::optional<Value> parse_key(std::string_view text) {
  if (text.size() < 2 || text[0] != '-') return std::nullopt;
  std::string_view rest = text.substr(2);
  if (text[1] == 't') return std::string(rest);
  if (text[1] == 'b') return Blob{std::string(rest)};
  if (text[1] != 'i') return std::nullopt;
  const auto number = take_number<std::int64_t>(rest, 10);
  if (!number || !rest.empty()) return std::nullopt;
  return *number;
}

}  // namespace

std::optional<RowHandle> parse_row_id(const RowId& row) {
  std::string_view text = row;
  const auto place = take_number<std::int64_t>(text, 10);
  if (!place || text.empty() || text[0] != '-') return std::nullopt;
  text.remove_prefix(1);
  const auto fingerprint = take_number<std::uint32_t>(text, 16);
  if (!fingerprint) return std::nullopt;
  if (text.empty()) return RowHandle{*place, *place, *fingerprint};
  const auto key = parse_key(text);
  if (!key) return std::nullopt;
  return RowHandle{*key, *place, *fingerprint};
}

}  // namespace outbox
