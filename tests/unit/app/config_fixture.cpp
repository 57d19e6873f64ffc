#include "config_fixture.h"

#include <doctest/doctest.h>

namespace outbox {

Config config_of(const std::string& text, std::vector<FlagValue> flags, Environment environment) {
  const TemporaryFile file(text);
  ConfigInput input;
  input.file = file.path();
  input.file_required = true;
  input.flags = std::move(flags);
  input.environment = std::move(environment);
  return load_config(input, named_backends());
}

std::vector<std::string> lines_of(const Config& config) {
  std::vector<std::string> lines;
  for (const auto& problem : config.problems) lines.push_back(describe(problem));
  return lines;
}

const EffectiveValue& value_of(const Config& config, const std::string& path) {
  for (const auto& value : config.values) {
    if (value.path == path) return value;
  }
  FAIL("no such setting: " << path);
  static const EffectiveValue kNone;
  return kNone;
}

}  // namespace outbox
