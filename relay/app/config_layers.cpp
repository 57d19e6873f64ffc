#include "relay/app/config_layers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "relay/app/printable.h"
#include "relay/app/suggest.h"

namespace outbox {
namespace {

constexpr std::string_view kPrefix = "OUTBOX_RELAY__";

std::string last_of(const std::string& path) { return path.substr(path.rfind('.') + 1); }

std::string section_of(const std::string& path) {
  const auto dot = path.rfind('.');
  return dot == std::string::npos ? std::string{} : path.substr(0, dot);
}

std::string child_of(const std::string& section, const std::string& name) {
  return section.empty() ? name : section + "." + name;
}

// Where else a key of this name exists.
std::string same_name_elsewhere(const std::string& name) {
  for (const auto& key : config_keys()) {
    std::string path(key.path);
    if (last_of(path) == name) return path;
  }
  return {};
}

// The secret that belongs in a file, when somebody writes it in the configuration.
std::string secret_twin(const std::string& path) {
  const std::string twin = path + "File";
  return find_key(twin) == nullptr ? std::string{} : last_of(twin);
}

std::string why_unknown(const std::string& path) {
  const std::string name = last_of(path);
  const std::string section = section_of(path);
  const std::string twin = secret_twin(path);
  if (!twin.empty()) return fmt::format("secrets are read from files; use {}", twin);
  std::string above = section;
  while (names_below(above).empty() && !above.empty()) above = section_of(above);
  const auto names = names_below(above);
  const std::string best = nearest(name, names);
  if (!best.empty()) return fmt::format("unknown key; did you mean \"{}\"?", best);
  const std::string elsewhere = same_name_elsewhere(name);
  if (!elsewhere.empty()) return fmt::format("unknown key; did you mean {}?", elsewhere);
  if (find_key(section) != nullptr) {
    return fmt::format("unknown key; {} is a setting by itself", section);
  }
  return fmt::format("unknown key; {} has {}", above.empty() ? "the configuration" : above,
                     fmt::join(names, ", "));
}

// A path is for --set; in the file each section stands by itself.
std::string dotted_key_reason(const std::string& key) {
  std::string nested = "...";
  auto names = split(key, ".");
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    nested = name == names.rbegin() ? *name + ": " + nested : *name + ": {" + nested + "}";
  }
  return "a key must not have dots; write " + nested;
}

bool is_broker_name(std::string_view name) {
  const auto plain = [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
           (letter >= '0' && letter <= '9') || letter == '-' || letter == '_';
  };
  return !name.empty() && name.size() <= 40 && std::ranges::all_of(name, plain);
}

// Scalars are taken as they are; lists, maps and sections are YAML flow.
ConfigNode read_given(const std::string& path, const std::string& text, const Origin& origin,
                      std::vector<Problem>& problems) {
  const ConfigKey* key = find_key(path);
  const bool structured = key == nullptr || key->kind == ValueKind::texts ||
                          key->kind == ValueKind::durations || key->kind == ValueKind::text_map ||
                          key->kind == ValueKind::secrets || key->kind == ValueKind::routes;
  if (!structured) return scalar_node(origin, text);
  return parse_yaml(text, path, origin, nullptr, problems);
}

bool is_map(const std::string& path) {
  const ConfigKey* key = find_key(path);
  return key != nullptr && (key->kind == ValueKind::text_map || key->kind == ValueKind::secrets);
}

void set_entry(ConfigNode& map, const std::string& name, const ConfigNode& value) {
  if (map.kind == ConfigNode::Kind::nothing) {
    map.kind = ConfigNode::Kind::map;
    map.origin = value.origin;
  }
  if (map.kind != ConfigNode::Kind::map) return;  // a problem that is told where it stands
  for (auto& entry : map.entries) {
    if (entry.key.text != name) continue;
    entry.value = value;
    return;
  }
  map.entries.push_back({scalar_node(value.origin, name), value});
}

std::string lower(std::string_view text) {
  std::string result;
  for (const char letter : text) {
    const bool upper = letter >= 'A' && letter <= 'Z';
    result += upper ? static_cast<char>(letter - 'A' + 'a') : letter;
  }
  return result;
}

// Entries of a map that a variable can name: shells allow capital letters only, and no dashes.
std::string entry_name(const ConfigKey& key, const std::string& segment) {
  for (const auto& name : split(key.choices, "|")) {
    if (variable_of(name) == variable_of(segment)) return name;
  }
  return lower(segment);
}

// "BROKERS", "MAIN", "URL" -> "brokers.main.url"; empty if there is no such setting or section.
std::string path_of_segments(const std::vector<std::string>& segments,
                             const std::vector<std::string>& brokers) {
  std::string path;
  for (std::size_t index = 0; index < segments.size(); ++index) {
    const std::string& segment = segments[index];
    if (is_map(path)) {
      const bool last = index + 1 == segments.size() && !segment.empty();
      return last ? child_of(path, entry_name(*find_key(path), segment)) : std::string{};
    }
    std::vector<std::string> candidates = path == "brokers" ? brokers : names_below(path);
    std::string name = path == "brokers" ? lower(segment) : std::string{};
    for (const auto& candidate : candidates) {
      if (variable_of(candidate) == variable_of(segment)) name = candidate;
    }
    const bool shouted = variable_of(segment).ends_with("__" + segment);
    if (name.empty() || !shouted) return {};
    path = child_of(path, name);
  }
  return find_key(path) != nullptr || is_section(path) ? path : std::string{};
}

// An entry of a map stands in a layer by its own path, until the layer covers another.
void add_given(ConfigLayer& layer, const std::string& path, const std::string& text,
               const Origin& origin, std::vector<Problem>& problems) {
  if (!map_of(path).empty()) {
    layer.insert_or_assign(path, scalar_node(origin, text));
    return;
  }
  add_to_layer(layer, path, read_given(path, text, origin, problems), problems);
}

std::vector<std::string> all_variables(const std::vector<std::string>& brokers) {
  std::vector<std::string> names;
  for (const auto& key : config_keys()) {
    for (const auto& broker : brokers)
      names.push_back(variable_of(concrete_path(key.path, broker)));
  }
  return names;
}

}  // namespace

std::string map_of(const std::string& path) {
  for (std::size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.', dot + 1)) {
    const std::string above = path.substr(0, dot);
    if (dot + 1 < path.size() && is_map(above)) return above;
  }
  return {};
}

void add_to_layer(ConfigLayer& layer, const std::string& path, const ConfigNode& node,
                  std::vector<Problem>& problems) {
  if (find_key(path) != nullptr) {
    layer.insert_or_assign(path, node);
    return;
  }
  if (node.broken || node.kind == ConfigNode::Kind::nothing) return;
  if (node.kind != ConfigNode::Kind::map) {
    problems.push_back(problem_at(node.origin, path, "must be a map of settings (key: value)"));
    return;
  }
  for (const auto& [key, value] : node.entries) {
    const std::string below = child_of(path, key.text);
    if (key.text.find('.') != std::string::npos) {
      problems.push_back(problem_at(key.origin, below, dotted_key_reason(key.text)));
    } else if (path == "brokers" && !is_broker_name(key.text)) {
      problems.push_back(problem_at(
          key.origin, below, "a broker's name has 1 to 40 letters, digits, dashes or underscores"));
    } else if (path == "brokers" && value.kind == ConfigNode::Kind::nothing && !value.broken) {
      problems.push_back(
          problem_at(key.origin, below, "this broker has no settings; give its url"));
    } else if (find_key(below) == nullptr && !is_section(below)) {
      problems.push_back(problem_at(key.origin, below, why_unknown(below)));
    } else {
      add_to_layer(layer, below, value, problems);
    }
  }
}

ConfigLayer environment_layer(const Environment& environment,
                              const std::vector<std::string>& brokers,
                              std::vector<Problem>& problems) {
  ConfigLayer layer;
  // A section's name sorts before those of its settings, so that the settings cover it.
  for (const auto& [name, value] : environment) {
    if (!name.starts_with(kPrefix)) continue;
    const Origin origin{Origin::Kind::environment, name};
    const auto segments = split(std::string_view(name).substr(kPrefix.size()), "__");
    const std::string path = path_of_segments(segments, brokers);
    if (path.empty()) {
      auto known = brokers;
      if (segments.size() > 1) known.push_back(lower(segments[1]));
      const std::string meant = did_you_mean(name, all_variables(known));
      problems.push_back(problem_at(
          origin, "",
          "unknown setting" + (meant.empty() ? "; write OUTBOX_RELAY__SECTION__KEY, for a key that "
                                               "`outbox-relay print-config` shows"
                                             : meant)));
      continue;
    }
    add_given(layer, path, value, origin, problems);
  }
  return layer;
}

ConfigLayer flag_layer(const std::vector<FlagValue>& flags, std::vector<Problem>& problems) {
  ConfigLayer layer;
  for (const auto& flag : flags) {
    const Origin origin{Origin::Kind::flag, flag.flag};
    const bool known =
        find_key(flag.path) != nullptr || is_section(flag.path) || !map_of(flag.path).empty();
    if (flag.path.empty() || !known) {
      problems.push_back(problem_at(origin, flag.path, why_unknown(flag.path)));
      continue;
    }
    add_given(layer, flag.path, flag.value, origin, problems);
  }
  return layer;
}

void cover(ConfigLayer& below, const ConfigLayer& above) {
  for (const auto& [path, node] : above) {
    const std::string map = map_of(path);
    if (map.empty()) {
      below.insert_or_assign(path, node);
    } else {
      set_entry(below[map], path.substr(map.size() + 1), node);
    }
  }
}

ConfigNode default_node(const ConfigKey& key) {
  std::vector<Problem> none;
  return read_given(std::string(key.path), std::string(key.fallback), Origin{}, none);
}

std::vector<std::string> brokers_of(const ConfigLayer& layer) {
  std::vector<std::string> names;
  for (const auto& [path, node] : layer) {
    const auto segments = split(path, ".");
    if (segments.size() < 3 || segments[0] != "brokers") continue;
    if (std::ranges::find(names, segments[1]) == names.end()) names.push_back(segments[1]);
  }
  return names;
}

}  // namespace outbox
