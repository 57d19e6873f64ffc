#include "relay/app/config_expand.h"

#include <fmt/format.h>
#include <unistd.h>

#include "relay/app/printable.h"

namespace outbox {
namespace {

bool is_name(std::string_view text) {
  if (text.empty() || (text[0] >= '0' && text[0] <= '9')) return false;
  for (const char letter : text) {
    const bool letter_or_digit = (letter >= 'a' && letter <= 'z') ||
                                 (letter >= 'A' && letter <= 'Z') ||
                                 (letter >= '0' && letter <= '9') || letter == '_';
    if (!letter_or_digit) return false;
  }
  return true;
}

// The text between the braces: NAME, NAME:-default or NAME:?message.
Parsed<std::string> look_up(std::string_view inside, const Environment& environment) {
  const auto colon = inside.find(':');
  const auto name = inside.substr(0, colon);
  const auto rest = colon == std::string_view::npos ? std::string_view{} : inside.substr(colon + 1);
  const bool known =
      colon == std::string_view::npos || rest.starts_with('-') || rest.starts_with('?');
  if (!is_name(name) || !known) {
    return {.error = fmt::format("\"${{{}}}\" is not a variable; write ${{NAME}}, "
                                 "${{NAME:-default}} or ${{NAME:?message}}, and $$ for a $",
                                 printable(inside, 60))};
  }
  const auto found = environment.find(std::string(name));
  const bool given =
      found != environment.end() && (colon == std::string_view::npos || !found->second.empty());
  if (given && found->second.find_first_of("\r\n") != std::string::npos) {
    return {.error = fmt::format("the environment variable {} holds a line break", name)};
  }
  if (given) return {.value = found->second};
  if (rest.starts_with('-')) return {.value = std::string(rest.substr(1))};
  if (rest.size() > 1) {
    return {.error = fmt::format("the environment variable {} is not set: {}", name,
                                 printable(rest.substr(1)))};
  }
  return {.error = fmt::format(
              "the environment variable {0} is not set; set it, or write ${{{0}:-default}}", name)};
}

}  // namespace

Environment process_environment() {
  Environment result;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const auto equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    result.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return result;
}

Parsed<std::string> expand(std::string_view text, const Environment& environment) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const auto rest = text.substr(at);
    if (rest.starts_with("$$")) {
      result += '$';
      at += 2;
    } else if (rest.starts_with("${")) {
      const auto end = rest.find('}');
      if (end == std::string_view::npos) {
        return {.error = "\"${\" without a \"}\"; write $$ for a $ that stands for itself"};
      }
      auto found = look_up(rest.substr(2, end - 2), environment);
      if (!found.ok()) return found;
      result += found.value;
      at += end + 1;
    } else {
      result += rest[0];
      ++at;
    }
  }
  return {.value = std::move(result)};
}

}  // namespace outbox
