// Loads configurations from texts, with backends that are never opened.
#pragma once

#include <string>
#include <vector>

#include "relay/app/config.h"
#include "tests/temporary_file.h"

namespace outbox {

inline Backends named_backends() {
  Backends backends;
  backends.stores["sqlite"] = {};
  for (const char* scheme : {"http", "https", "null", "stdout"}) backends.publishers[scheme] = {};
  return backends;
}

inline constexpr const char* kMinimal =
    "store: { url: \"sqlite:///data/app.db\" }\n"
    "brokers: { main: { url: \"null:\" } }\n";

// A configuration of the file's text, flags and variables.
Config config_of(const std::string& text, std::vector<FlagValue> flags = {},
                 Environment environment = {});

// One line for each problem.
std::vector<std::string> lines_of(const Config& config);

// Where a setting in force came from, and what it is.
const EffectiveValue& value_of(const Config& config, const std::string& path);

}  // namespace outbox
