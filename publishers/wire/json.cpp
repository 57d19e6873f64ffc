#include "publishers/wire/json.h"

#include <nlohmann/json.hpp>

namespace outbox {

std::string json_string(std::string_view text) { return nlohmann::json(text).dump(); }

bool is_json(std::string_view bytes) {
  // The library skips a byte order mark, and takes a zero byte for the end.
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (bytes.starts_with(kByteOrderMark) || bytes.find('\0') != std::string_view::npos) return false;
  return nlohmann::json::accept(bytes);
}

}  // namespace outbox
