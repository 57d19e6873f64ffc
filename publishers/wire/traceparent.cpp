#include "publishers/wire/traceparent.h"

namespace outbox {

namespace {

constexpr std::string_view kLowerHex = "0123456789abcdef";

bool is_hex(std::string_view text) {
  return text.find_first_not_of(kLowerHex) == std::string_view::npos;
}

bool is_zero(std::string_view text) {
  return text.find_first_not_of('0') == std::string_view::npos;
}

}  // namespace

bool is_valid_traceparent(std::string_view value) {
  constexpr std::size_t kLength = 55;      // 00-<32>-<16>-<2>
  constexpr std::size_t kLengthMax = 512;  // what a later version may need, and no more
  if (value.size() < kLength || value.size() > kLengthMax) return false;
  const std::string_view version = value.substr(0, 2);
  const std::string_view trace = value.substr(3, 32);
  const std::string_view parent = value.substr(36, 16);
  const std::string_view flags = value.substr(53, 2);
  if (value[2] != '-' || value[35] != '-' || value[52] != '-') return false;
  if (!is_hex(version) || !is_hex(trace) || !is_hex(parent) || !is_hex(flags)) return false;
  if (version == "ff" || is_zero(trace) || is_zero(parent)) return false;
  if (value.size() == kLength) return true;
  const std::string_view rest = value.substr(kLength);
  for (const char c : rest) {
    if (c <= ' ' || c >= '\x7F') return false;
  }
  return version != "00" && rest.front() == '-';
}

}  // namespace outbox
