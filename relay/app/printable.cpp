#include "relay/app/printable.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <limits>

#include "publishers/wire/text.h"

namespace outbox {
namespace {

struct Character {
  char32_t code = 0;
  std::size_t length = 1;
  bool valid = false;
};

std::size_t length_by_first_byte(unsigned char byte) {
  if (byte < 0x80) return 1;
  if (byte >= 0xC2 && byte <= 0xDF) return 2;
  if (byte >= 0xE0 && byte <= 0xEF) return 3;
  if (byte >= 0xF0 && byte <= 0xF4) return 4;
  return 0;
}

// The character at `at`; an invalid one is a single byte.
Character decode(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t index) { return static_cast<unsigned char>(text[index]); };
  const std::size_t length = length_by_first_byte(byte(at));
  if (length == 0 || at + length > text.size()) return {};
  if (length == 1) return {byte(at), 1, true};
  char32_t code = byte(at) & (0xFFU >> (length + 1));
  for (std::size_t index = 1; index < length; ++index) {
    if ((byte(at + index) & 0xC0U) != 0x80U) return {};
    code = (code << 6) | (byte(at + index) & 0x3FU);
  }
  constexpr std::array<char32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < kLeast[length] || code > 0x10FFFF || surrogate) return {};
  return {code, length, true};
}

bool within(char32_t code, char32_t first, char32_t last) { return code >= first && code <= last; }

// Characters that move the cursor, reorder their neighbours or can't be seen.
bool is_unsafe(char32_t code) {
  return code < 0x20 || within(code, 0x7F, 0x9F) || code == 0xAD || code == 0x61C ||
         code == 0x180E || within(code, 0x200B, 0x200F) || within(code, 0x2028, 0x202E) ||
         within(code, 0x2060, 0x206F) || code == 0xFEFF || within(code, 0xFFF9, 0xFFFB) ||
         within(code, 0xE0000, 0xE007F);
}

std::string escape(char32_t code) {
  switch (code) {
    case U'"':
      return "\\\"";
    case U'\\':
      return "\\\\";
    case U'\n':
      return "\\n";
    case U'\r':
      return "\\r";
    case U'\t':
      return "\\t";
    default:
      break;
  }
  if (code < 0x10000) return fmt::format("\\u{:04x}", static_cast<std::uint32_t>(code));
  const auto rest = static_cast<std::uint32_t>(code) - 0x10000U;
  return fmt::format("\\u{:04x}\\u{:04x}", 0xD800U + (rest >> 10), 0xDC00U + (rest & 0x3FFU));
}

// What follows the host's colon can't be a port.
bool bad_port(std::string_view authority) {
  const auto colon = authority.rfind(':');
  if (colon == std::string_view::npos || authority.ends_with(']')) return false;
  return authority.find_first_not_of("0123456789", colon + 1) != std::string_view::npos;
}

// Where user information begins and ends in a URL: [after "//", at "@"). A password with an
// unescaped slash must not escape the search, or it would be shown.
std::string_view user_part(std::string_view url) {
  const auto slashes = url.find("://");
  if (slashes == std::string_view::npos) return {};
  const auto rest = url.substr(slashes + 3);
  const auto authority = rest.substr(0, rest.find_first_of("/?#"));
  const auto sign = bad_port(authority) ? rest.rfind('@') : authority.rfind('@');
  return sign == std::string_view::npos ? std::string_view{} : rest.substr(0, sign);
}

bool names_a_secret(std::string_view name) {
  const std::string lower = to_lower(name);
  for (const std::string_view part : {"pass", "pwd", "token", "secret", "key", "sig", "auth"}) {
    if (lower.find(part) != std::string::npos) return true;
  }
  return false;
}

std::string redacted_query(std::string_view query) {
  std::string result;
  while (!query.empty()) {
    const auto end = query.find('&');
    const auto pair = query.substr(0, end);
    const auto equals = pair.find('=');
    const bool secret = equals != std::string_view::npos && names_a_secret(pair.substr(0, equals));
    if (secret) {
      result += fmt::format("{}=***", pair.substr(0, equals));
    } else {
      result += pair;
    }
    if (end == std::string_view::npos) break;
    result += '&';
    query.remove_prefix(end + 1);
  }
  return result;
}

enum class Quotes { escaped, kept };

bool append(std::string& out, std::string_view text, std::size_t room, Quotes quotes) {
  for (std::size_t at = 0; at < text.size();) {
    const Character character = decode(text, at);
    const bool quoted =
        quotes == Quotes::escaped && (character.code == U'"' || character.code == U'\\');
    std::string escaped;
    std::string_view piece = text.substr(at, character.length);
    if (!character.valid) {
      piece = "\\ufffd";
    } else if (quoted || is_unsafe(character.code)) {
      escaped = escape(character.code);
      piece = escaped;
    }
    if (piece.size() > room) return false;
    room -= piece.size();
    out += piece;
    at += character.length;
  }
  return true;
}

}  // namespace

bool append_escaped(std::string& out, std::string_view text, std::size_t room) {
  return append(out, text, room, Quotes::escaped);
}

std::string printable(std::string_view text, std::size_t limit) {
  std::string result;
  if (!append_escaped(result, text, limit)) result += "...";
  return result;
}

std::string printable_sentence(std::string_view text, std::size_t limit) {
  std::string result;
  if (!append(result, text, limit, Quotes::kept)) result += "...";
  return result;
}

std::string shell_quoted(std::string_view text) {
  std::string word = "'";
  for (const char letter : text) {
    word += letter == '\'' ? std::string("'\\''") : std::string{letter};
  }
  return word + "'";
}

bool has_password(std::string_view url) {
  return user_part(url).find(':') != std::string_view::npos;
}

std::string redacted_url(std::string_view url) {
  std::string result(url);
  const auto user = user_part(url);
  const auto colon = user.find(':');
  if (colon != std::string_view::npos) {
    const auto start = static_cast<std::size_t>(user.data() - url.data()) + colon + 1;
    result.replace(start, user.size() - colon - 1, "***");
  }
  const auto question = result.find('?');
  if (question == std::string::npos) return result;
  return result.substr(0, question + 1) +
         redacted_query(std::string_view(result).substr(question + 1));
}

}  // namespace outbox
