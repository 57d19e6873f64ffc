#include "relay/app/config_reload.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "relay/app/digest.h"

namespace outbox {
namespace {

constexpr std::array<std::string_view, 4> kLiveSections = {"retry.", "breaker.", "retention.",
                                                           "log."};
constexpr std::array<std::string_view, 2> kLiveKeys = {"relay.batchSize", "relay.pollInterval"};

template <class Values>
auto* find_value(Values& values, const std::string& path) {
  const auto found = std::ranges::find(values, path, &EffectiveValue::path);
  return found == values.end() ? nullptr : &*found;
}

bool from_profile(const EffectiveValue& value) {
  return value.origin.kind == Origin::Kind::profile;
}

// A setting that only one of two configurations has belongs to a broker of another name.
std::string broker_of(const std::string& path) {
  const auto segments = split(path, ".");
  return segments.size() > 2 ? segments[0] + "." + segments[1] : path;
}

void add_once(std::vector<std::string>& paths, std::string path) {
  if (std::ranges::find(paths, path) == paths.end()) paths.push_back(std::move(path));
}

}  // namespace

bool applies_at_once(std::string_view path) {
  return std::ranges::find(kLiveKeys, path) != kLiveKeys.end() ||
         std::ranges::any_of(kLiveSections,
                             [path](const auto& section) { return path.starts_with(section); });
}

ConfigChange take_over(const Config& running, Config fresh) {
  ConfigChange change{.in_force = running, .applied = {}, .restarting = {}};
  // What is kept by default depends on the table, and the relay goes on with the one that it has.
  default_retention(fresh, running.settings.store);
  const bool other_profile = running.settings.profile != fresh.settings.profile;
  for (auto& value : change.in_force.values) {
    const auto* other = find_value(fresh.values, value.path);
    if (other == nullptr) {
      add_once(change.restarting, broker_of(value.path));
      continue;
    }
    if (value.text == other->text && value.value == other->value) continue;
    const bool waits = other_profile && (from_profile(value) || from_profile(*other));
    if (waits || !applies_at_once(value.path)) {
      add_once(change.restarting, value.path);
      continue;
    }
    find_key(value.path)->put(change.in_force.settings, other->value);
    value = *other;
    change.applied.push_back(value.path);
  }
  for (const auto& value : fresh.values) {
    if (find_value(running.values, value.path) == nullptr) {
      add_once(change.restarting, broker_of(value.path));
    }
  }
  change.in_force.warnings = std::move(fresh.warnings);
  return change;
}

std::string digest_of(const Config& config) {
  std::string text;
  for (const auto& value : config.values) text += fmt::format("{}: {}\n", value.path, value.text);
  return sha256_hex(text);
}

}  // namespace outbox
