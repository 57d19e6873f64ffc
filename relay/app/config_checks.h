// What can only be judged when all settings are known.
#pragma once

#include <map>
#include <string>

#include "relay/app/config.h"

namespace outbox {

struct CheckedValue {
  const ConfigKey* key = nullptr;
  ConfigNode node;
  ConfigValue value;
  bool good = false;  // converted
};

// By concrete path, for every key; the brokers' keys for each broker.
using CheckedValues = std::map<std::string, CheckedValue>;

// Adds what is wrong to config.problems, and what the user should know to config.warnings.
void check_config(const CheckedValues& values, const ConfigInput& input, const Backends& backends,
                  Config& config);

}  // namespace outbox
