#include "publishers/wire/text.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace outbox {

namespace {

constexpr std::string_view kHexDigits = "0123456789ABCDEF";
constexpr std::string_view kBase64Digits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::uint8_t byte_at(std::string_view text, std::size_t at) {
  return static_cast<std::uint8_t>(text[at]);
}

bool is_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// The length of the sequence that starts here; 0 if it is not valid UTF-8.
std::size_t sequence_length(std::string_view text, std::size_t at) {
  const std::uint8_t lead = byte_at(text, at);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  const std::size_t length = lead < 0xE0 ? 2 : (lead < 0xF0 ? 3 : 4);
  if (at + length > text.size()) return 0;
  const std::uint8_t second = byte_at(text, at + 1);
  std::uint8_t low = 0x80;
  std::uint8_t high = 0xBF;
  if (lead == 0xE0) low = 0xA0;   // overlong
  if (lead == 0xED) high = 0x9F;  // surrogates
  if (lead == 0xF0) low = 0x90;   // overlong
  if (lead == 0xF4) high = 0x8F;  // above U+10FFFF
  if (second < low || second > high) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if ((byte_at(text, at + i) & 0xC0) != 0x80) return 0;
  }
  return length;
}

void append_percent(std::string& out, char c) {
  const auto byte = static_cast<std::uint8_t>(c);
  out += '%';
  out += kHexDigits[byte >> 4];
  out += kHexDigits[byte & 0x0F];
}

}  // namespace

bool is_valid_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = sequence_length(text, at);
    if (length == 0) return false;
    at += length;
  }
  return true;
}

bool has_control_character(std::string_view text) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    const std::uint8_t byte = byte_at(text, at);
    if (byte < 0x20 || byte == 0x7F) return true;
    if (byte == 0xC2 && at + 1 < text.size() && byte_at(text, at + 1) < 0xA0) return true;
  }
  return false;
}

std::string cut_text(std::string_view text, std::size_t size) {
  if (text.size() <= size) return std::string(text);
  while (size > 0 && (byte_at(text, size) & 0xC0) == 0x80) --size;
  return std::string(text.substr(0, size));
}

bool is_header_name(std::string_view name) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  for (const char c : name) {
    if (!is_alphanumeric(c) && kMarks.find(c) == std::string_view::npos) return false;
  }
  return !name.empty();
}

std::string to_lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

std::string percent_encode_attribute(std::string_view value) {
  std::string out;
  out.reserve(value.size());
  for (const char c : value) {
    if (c > ' ' && c < '\x7F' && c != '"' && c != '%') {
      out += c;
    } else {
      append_percent(out, c);
    }
  }
  return out;
}

std::string percent_encode_segment(std::string_view segment) {
  std::string out;
  out.reserve(segment.size());
  for (const char c : segment) {
    if (is_alphanumeric(c) || c == '-' || c == '.' || c == '_' || c == '~') {
      out += c;
    } else {
      append_percent(out, c);
    }
  }
  return out;
}

std::string base64(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t left = bytes.size() - at;
    std::uint32_t group = static_cast<std::uint32_t>(byte_at(bytes, at)) << 16;
    if (left > 1) group |= static_cast<std::uint32_t>(byte_at(bytes, at + 1)) << 8;
    if (left > 2) group |= byte_at(bytes, at + 2);
    out += kBase64Digits[(group >> 18) & 63];
    out += kBase64Digits[(group >> 12) & 63];
    out += left > 1 ? kBase64Digits[(group >> 6) & 63] : '=';
    out += left > 2 ? kBase64Digits[group & 63] : '=';
  }
  return out;
}

std::optional<std::string> base64_decoded(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  const std::size_t padding = text.ends_with("==") ? 2 : (text.ends_with('=') ? 1 : 0);
  text.remove_suffix(padding);
  std::string bytes;
  std::uint32_t group = 0;
  int bits = 0;
  for (const char c : text) {
    const auto digit = kBase64Digits.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    group = (group << 6 | static_cast<std::uint32_t>(digit)) & 0xFFFF;
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes += static_cast<char>(group >> bits & 0xFF);
  }
  // Bits that belong to no byte must be zero, or several texts would mean the same.
  if ((group & ((1u << bits) - 1)) != 0) return std::nullopt;
  return bytes;
}

}  // namespace outbox
