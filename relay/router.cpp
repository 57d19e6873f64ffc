#include "relay/router.h"

#include <algorithm>
#include <optional>

namespace outbox {

namespace {

constexpr std::string_view kHeaderPrefix = "header.";
constexpr std::string_view kAllowed =
    "allowed are {eventType}, {key} and {header.NAME}; {{ and }} stand for braces";

// The next part of a template: plain text, a placeholder, or what is wrong there.
struct Piece {
  enum class Kind { text, placeholder, broken };
  Kind kind = Kind::text;
  std::string_view text;  // a placeholder's without its braces
  std::size_t end = 0;    // where the part after it begins
};

Piece piece_at(std::string_view text, std::size_t from) {
  const std::size_t brace = std::min(text.find_first_of("{}", from), text.size());
  if (brace > from) return {Piece::Kind::text, text.substr(from, brace - from), brace};
  const bool doubled = from + 1 < text.size() && text[from + 1] == text[from];
  if (doubled) return {Piece::Kind::text, text.substr(from, 1), from + 2};
  const std::size_t close = text.find('}', from);
  if (text[from] == '}' || close == std::string_view::npos) {
    return {Piece::Kind::broken, text.substr(from), text.size()};
  }
  return {Piece::Kind::placeholder, text.substr(from + 1, close - from - 1), close + 1};
}

bool known(std::string_view placeholder) {
  return placeholder == "eventType" || placeholder == "key" ||
         (placeholder.starts_with(kHeaderPrefix) && placeholder.size() > kHeaderPrefix.size());
}

char lower(char letter) {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

bool same_name(std::string_view left, std::string_view right) {
  return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                    [](char a, char b) { return lower(a) == lower(b); });
}

// The first header of that name; empty if there is none.
std::string_view header_value(const Message& message, std::string_view name) {
  for (const Header& header : message.headers) {
    if (same_name(header.name, name)) return header.value;
  }
  return {};
}

std::string_view value_of(const Message& message, std::string_view placeholder) {
  if (placeholder == "eventType") return message.event_type;
  if (placeholder == "key") {
    return message.ordering_key ? std::string_view{*message.ordering_key} : std::string_view{};
  }
  return header_value(message, placeholder.substr(kHeaderPrefix.size()));
}

std::string in_braces(std::string_view placeholder) {
  std::string text(1, '{');
  text += placeholder;
  text += '}';
  return text;
}

Routed render(const std::string& text, const Message& message) {
  Routed routed;
  std::size_t from = 0;
  while (from < text.size()) {
    const Piece piece = piece_at(text, from);
    from = piece.end;
    std::string_view part = piece.text;
    if (piece.kind != Piece::Kind::text) {
      if (piece.kind == Piece::Kind::broken || !known(part)) return {"", template_error(text)};
      part = value_of(message, piece.text);
      if (part.empty()) return {"", "the row has no value for " + in_braces(piece.text)};
    }
    routed.destination += part;
  }
  return routed;
}

std::size_t after_character(std::string_view text, std::size_t at) {
  ++at;
  while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) ++at;
  return at;
}

}  // namespace

Routed Router::route(const Message& message) const {
  const Routed own{message.destination.value_or(""), ""};
  if (routes_.empty()) return own;
  for (const Route& route : routes_) {
    if (!glob_matches(route.event_type, message.event_type)) continue;
    return route.destination.empty() ? own : render(route.destination, message);
  }
  return {"", "no_route"};
}

std::string template_error(const std::string& text) {
  std::size_t from = 0;
  while (from < text.size()) {
    const Piece piece = piece_at(text, from);
    if (piece.kind == Piece::Kind::broken) {
      return "unpaired brace at \"" + std::string(piece.text) + "\"; " + std::string(kAllowed);
    }
    if (piece.kind == Piece::Kind::placeholder && !known(piece.text)) {
      return "unknown placeholder " + in_braces(piece.text) + "; " + std::string(kAllowed);
    }
    from = piece.end;
  }
  return "";
}

// Only the last star is ever tried again: what an earlier one could take, the later one can too.
bool glob_matches(std::string_view pattern, std::string_view text) {
  std::size_t at = 0;
  std::size_t in = 0;
  std::optional<std::size_t> after_star;
  std::size_t star_ends = 0;  // what the last star took so far ends here
  while (in < text.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      after_star = ++at;
      star_ends = in;
    } else if (at < pattern.size() && pattern[at] == '?') {
      ++at;
      in = after_character(text, in);
    } else if (at < pattern.size() && pattern[at] == text[in]) {
      ++at;
      ++in;
    } else if (after_star) {
      at = *after_star;
      star_ends = after_character(text, star_ends);
      in = star_ends;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', at) == std::string_view::npos;
}

}  // namespace outbox
