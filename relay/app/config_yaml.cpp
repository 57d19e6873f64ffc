#include "relay/app/config_yaml.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>

#include "relay/app/printable.h"
#include "relay/app/units.h"

namespace outbox {
namespace {

constexpr auto kNoLimit = std::numeric_limits<std::size_t>::max() / 2;

std::string quoted(std::string_view text) {
  std::string result = "\"";
  append_escaped(result, text, kNoLimit);
  return result + "\"";
}

// Within values a $ may begin a variable.
std::string with_dollars_kept(std::string_view text) {
  std::string result;
  for (const char letter : text) result += letter == '$' ? std::string("$$") : std::string{letter};
  return result;
}

// Reads as the same text without quotes, in every version of YAML.
bool is_plain(std::string_view text) {
  constexpr std::array<std::string_view, 10> kWords = {"true", "false", "yes", "no", "on",
                                                       "off",  "null",  "y",   "n",  "~"};
  const auto letter = [](char one) {
    return (one >= 'a' && one <= 'z') || (one >= 'A' && one <= 'Z');
  };
  const auto harmless = [&](char one) {
    return letter(one) || (one >= '0' && one <= '9') ||
           std::string_view("_-./:").find(one) != std::string_view::npos;
  };
  if (text.empty() || text.ends_with(':') || !(letter(text[0]) || text[0] == '/')) return false;
  std::string lower;
  for (const char one : text) lower += one >= 'A' && one <= 'Z' ? char(one - 'A' + 'a') : one;
  return std::ranges::all_of(text, harmless) && std::ranges::find(kWords, lower) == kWords.end();
}

std::string text_value(std::string_view text) {
  return is_plain(text) ? std::string(text) : quoted(with_dollars_kept(text));
}

std::string map_value(const std::map<std::string, std::string>& map, bool secret) {
  std::vector<std::string> entries;
  for (const auto& [name, text] : map) {
    entries.push_back(fmt::format("{}: {}", quoted(name),
                                  quoted(secret ? std::string("***") : with_dollars_kept(text))));
  }
  return fmt::format("{{{}}}", fmt::join(entries, ", "));
}

std::string list_value(const ConfigValue& value) {
  std::vector<std::string> items;
  for (const auto& text : value.texts) items.push_back(quoted(with_dollars_kept(text)));
  for (const auto& duration : value.durations) items.push_back(format_duration(duration));
  for (const auto& route : value.routes) {
    items.push_back(fmt::format("{{match: {{eventType: {}}}, destination: {}}}",
                                quoted(with_dollars_kept(route.event_type)),
                                quoted(with_dollars_kept(route.destination))));
  }
  return fmt::format("[{}]", fmt::join(items, ", "));
}

std::string yaml_value(const ConfigKey& key, const EffectiveValue& effective) {
  const ConfigValue& value = effective.value;
  switch (key.kind) {
    case ValueKind::text:
    case ValueKind::choice:
      return text_value(value.text);
    case ValueKind::url:
      return text_value(redacted_url(value.text));
    case ValueKind::address:
      return quoted(format_address(value.address));
    case ValueKind::texts:
    case ValueKind::durations:
    case ValueKind::routes:
      return list_value(value);
    case ValueKind::text_map:
      return map_value(value.map, false);
    case ValueKind::secrets:
      return map_value(value.map, true);
    case ValueKind::boolean:
    case ValueKind::count:
    case ValueKind::number:
    case ValueKind::duration:
    case ValueKind::retention:
    case ValueKind::size:
      return effective.text;
  }
  return {};
}

}  // namespace

std::string to_yaml(const Config& config, bool sources) {
  std::string result;
  std::vector<std::string> open;  // the sections that the last line stands in
  for (const auto& value : config.values) {
    auto segments = split(value.path, ".");
    const std::string name = segments.back();
    segments.pop_back();
    std::size_t common = 0;
    while (common < std::min(open.size(), segments.size()) && open[common] == segments[common]) {
      ++common;
    }
    for (std::size_t depth = common; depth < segments.size(); ++depth) {
      result += fmt::format("{:{}}{}:\n", "", 2 * depth, segments[depth]);
    }
    open = segments;
    result += fmt::format("{:{}}{}: {}", "", 2 * segments.size(), name,
                          yaml_value(*find_key(value.path), value));
    result += sources ? fmt::format("  # {}\n", describe(value.origin)) : std::string("\n");
  }
  return result;
}

}  // namespace outbox
