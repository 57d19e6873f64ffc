#include "relay/app/config_value.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>

#include "relay/app/config_routes.h"
#include "relay/app/printable.h"
#include "relay/app/suggest.h"
#include "relay/app/units.h"

namespace outbox {
namespace {

constexpr const char* kHidden =
    "*** stands for a secret that print-config does not show; put the secret back";

// Each place for a secret in the URL holds the stars that print-config shows there.
bool hides_a_secret(const std::string& url) {
  const std::string other = fmt::format("{}", fmt::join(split(url, "***"), "x"));
  return other != url && redacted_url(url) == url && redacted_url(other) != other;
}

// Converts one value; collects what is wrong with it.
class Converter {
 public:
  Converter(const ConfigKey& key, const std::string& path, std::vector<Problem>& problems)
      : key_(key), path_(path), problems_(problems) {}

  bool convert(const ConfigNode& node, ConfigValue& value) {
    const std::size_t before = problems_.size();
    if (node.kind == ConfigNode::Kind::nothing) {
      fail(node,
           is_list() ? "has no value; write [] for none" : "has no value; write \"\" for none");
    } else {
      convert_kind(node, value);
    }
    return problems_.size() == before;
  }

 private:
  using Kind = ValueKind;

  bool is_list() const {
    return key_.kind == Kind::texts || key_.kind == Kind::durations || key_.kind == Kind::routes;
  }

  void convert_kind(const ConfigNode& node, ConfigValue& value) {
    switch (key_.kind) {
      case Kind::text:
      case Kind::url:
        if (is_scalar(node)) value.text = node.text;
        if (key_.kind == Kind::url && hides_a_secret(value.text)) fail(node, kHidden);
        return;
      case Kind::choice:
        return to_choice(node, value);
      case Kind::boolean:
        return to_boolean(node, value);
      case Kind::count:
        return to_count(node, value);
      case Kind::number:
        return to_number(node, value);
      case Kind::duration:
        if (is_scalar(node)) value.duration = to_duration(node);
        return;
      case Kind::retention:
        return to_retention(node, value);
      case Kind::size:
        return to_size(node, value);
      case Kind::address:
        return to_address(node, value);
      case Kind::texts:
      case Kind::durations:
        return to_list(node, value);
      case Kind::text_map:
      case Kind::secrets:
        return to_map(node, value);
      case Kind::routes:
        return read_routes(node, path_, value.routes, problems_);
    }
  }

  void fail(const ConfigNode& node, std::string reason) {
    problems_.push_back(problem_with(key_, path_, node, std::move(reason)));
  }

  bool is_scalar(const ConfigNode& node) {
    if (node.kind == ConfigNode::Kind::scalar) return !node.broken;
    fail(node, "must be a single value, not a list or a map");
    return false;
  }

  void to_choice(const ConfigNode& node, ConfigValue& value) {
    if (!is_scalar(node)) return;
    std::vector<std::string> choices = split(key_.choices, "|");
    for (const auto& choice : choices) {
      if (choice != node.text) continue;
      value.text = choice;
      return;
    }
    std::vector<std::string> shown;
    for (const auto& choice : choices) shown.push_back(choice.empty() ? "\"\"" : choice);
    fail(node, fmt::format("is not one of {}{}", fmt::join(shown, ", "),
                           did_you_mean(node.text, choices)));
  }

  void to_boolean(const ConfigNode& node, ConfigValue& value) {
    if (!is_scalar(node)) return;
    value.truth = node.text == "true";
    if (node.text != "true" && node.text != "false") fail(node, "must be true or false");
  }

  void to_count(const ConfigNode& node, ConfigValue& value) {
    if (!is_scalar(node)) return;
    const auto& text = node.text;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value.count);
    if (error == std::errc::result_out_of_range) return out_of_range(node);
    if (error != std::errc{} || end != text.data() + text.size()) {
      return fail(node, "must be a whole number, without sign or unit");
    }
    const auto limit = [](std::string_view bound) { return std::stoull(std::string(bound)); };
    if (value.count < limit(key_.low) || value.count > limit(key_.high)) out_of_range(node);
  }

  void to_number(const ConfigNode& node, ConfigValue& value) {
    if (!is_scalar(node)) return;
    const auto& text = node.text;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value.number);
    if (error == std::errc::result_out_of_range) return out_of_range(node);
    const bool whole = error == std::errc{} && end == text.data() + text.size();
    if (!whole || !std::isfinite(value.number)) {
      return fail(node, "must be a number, such as 0.5 or 2");
    }
    const auto limit = [](std::string_view bound) { return std::stod(std::string(bound)); };
    if (value.number < limit(key_.low) || value.number > limit(key_.high)) out_of_range(node);
  }

  Duration to_duration(const ConfigNode& node) {
    const auto parsed = parse_duration(node.text);
    if (!parsed.ok()) {
      fail(node, parsed.error);
    } else if (!key_.low.empty() && (parsed.value < parse_duration(key_.low).value ||
                                     parsed.value > parse_duration(key_.high).value)) {
      out_of_range(node);
    }
    return parsed.value;
  }

  void to_retention(const ConfigNode& node, ConfigValue& value) {
    if (!is_scalar(node)) return;
    value.text = node.text;
    if (node.text != "never") value.duration = to_duration(node);
  }

  void to_size(const ConfigNode& node, ConfigValue& value) {
    if (!is_scalar(node)) return;
    const auto parsed = parse_size(node.text);
    value.count = parsed.value;
    if (!parsed.ok()) return fail(node, parsed.error);
    if (value.count < parse_size(key_.low).value || value.count > parse_size(key_.high).value) {
      out_of_range(node);
    }
  }

  void to_address(const ConfigNode& node, ConfigValue& value) {
    if (!is_scalar(node)) return;
    auto parsed = parse_address(node.text);
    if (!parsed.ok()) return fail(node, parsed.error);
    value.address = std::move(parsed.value);
  }

  void to_list(const ConfigNode& node, ConfigValue& value) {
    if (node.kind != ConfigNode::Kind::list) return fail(node, "must be a list, such as [a, b]");
    for (const auto& item : node.items) {
      if (!is_scalar(item)) continue;
      if (key_.kind == Kind::texts) {
        value.texts.push_back(item.text);
      } else {
        value.durations.push_back(to_duration(item));
      }
    }
  }

  void to_map(const ConfigNode& node, ConfigValue& value) {
    if (node.kind != ConfigNode::Kind::map)
      return fail(node, "must be a map, such as {name: value}");
    for (const auto& [name, item] : node.entries) {
      if (!is_scalar(item)) continue;
      value.map.emplace(name.text, item.text);
      if (key_.kind == Kind::secrets && item.text == "***") {
        fail(item, fmt::format("{}: {}", printable(name.text), kHidden));
      }
    }
  }

  void out_of_range(const ConfigNode& node) {
    fail(node, fmt::format("must be between {} and {}", key_.low, key_.high));
  }

  const ConfigKey& key_;
  const std::string& path_;
  std::vector<Problem>& problems_;
};

std::string format_map(const ConfigValue& value, bool secret) {
  std::vector<std::string> entries;
  for (const auto& [name, text] : value.map) {
    entries.push_back(fmt::format("{}: {}", printable(name), secret ? "***" : printable(text)));
  }
  return fmt::format("{{{}}}", fmt::join(entries, ", "));
}

std::string format_list(const std::vector<std::string>& items) {
  return fmt::format("[{}]", fmt::join(items, ", "));
}

}  // namespace

bool convert_value(const ConfigKey& key, const std::string& path, const ConfigNode& node,
                   ConfigValue& value, std::vector<Problem>& problems) {
  return !node.broken && Converter(key, path, problems).convert(node, value);
}

std::string format_value(const ConfigKey& key, const ConfigValue& value) {
  switch (key.kind) {
    case ValueKind::text:
      return printable(value.text);
    case ValueKind::url:
      return printable(redacted_url(value.text), 1000);
    case ValueKind::choice:
      return value.text;
    case ValueKind::boolean:
      return value.truth ? "true" : "false";
    case ValueKind::count:
      return fmt::format("{}", value.count);
    case ValueKind::number:
      return fmt::format("{}", value.number);
    case ValueKind::duration:
      return format_duration(value.duration);
    case ValueKind::retention:
      return value.text == "never" ? value.text : format_duration(value.duration);
    case ValueKind::size:
      return format_size(value.count);
    case ValueKind::address:
      return format_address(value.address);
    case ValueKind::text_map:
      return format_map(value, false);
    case ValueKind::secrets:
      return format_map(value, true);
    case ValueKind::texts:
    case ValueKind::durations:
    case ValueKind::routes:
      break;
  }
  std::vector<std::string> items;
  for (const auto& text : value.texts) items.push_back(printable(text));
  for (const auto& duration : value.durations) items.push_back(format_duration(duration));
  for (const auto& route : value.routes) items.push_back(format_route(route));
  return format_list(items);
}

Problem problem_with(const ConfigKey& key, const std::string& path, const ConfigNode& node,
                     std::string reason) {
  const bool show = node.kind == ConfigNode::Kind::scalar && key.kind != ValueKind::secrets;
  return {node.origin, path, show ? redacted_url(node.shown) : std::string{}, std::move(reason)};
}

}  // namespace outbox
