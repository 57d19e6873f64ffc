#include "storage/sqlite/row_handle.h"

#include <fmt/format.h>

#include <charconv>

namespace outbox::sqlite {

// FNV-1a, 32 bits (Fowler, Noll, Vo): enough to tell one row from another in the same place.
std::uint32_t fingerprint_of_id(std::string_view event_id) {
  std::uint32_t hash = 2166136261u;
  for (const char character : event_id) {
    hash = (hash ^ static_cast<unsigned char>(character)) * 16777619u;
  }
  return hash;
}

RowId to_row_id(std::int64_t key, std::string_view event_id) {
  return fmt::format("{}-{:08x}", key, fingerprint_of_id(event_id));
}

std::optional<RowHandle> parse_row_id(const RowId& row) {
  RowHandle handle;
  const char* const end = row.data() + row.size();
  const auto key = std::from_chars(row.data(), end, handle.key);
  if (key.ec != std::errc{} || key.ptr == end || *key.ptr != '-') return std::nullopt;
  const auto rest = std::from_chars(key.ptr + 1, end, handle.fingerprint, 16);
  if (rest.ec != std::errc{} || rest.ptr != end) return std::nullopt;
  return handle;
}

}  // namespace outbox::sqlite
