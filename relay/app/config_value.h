// Configuration values: from text to what they mean, and back.
#pragma once

#include <string>
#include <vector>

#include "relay/app/config_keys.h"
#include "relay/app/config_node.h"

namespace outbox {

// Converts `node`, given for `path`, as `key` asks. What is wrong is added to `problems`, and then
// the result means nothing: false.
bool convert_value(const ConfigKey& key, const std::string& path, const ConfigNode& node,
                   ConfigValue& value, std::vector<Problem>& problems);

// The value as it would be written, on one line and without secrets.
std::string format_value(const ConfigKey& key, const ConfigValue& value);

// A problem that shows the value as it was written, unless it may be secret.
Problem problem_with(const ConfigKey& key, const std::string& path, const ConfigNode& node,
                     std::string reason);

}  // namespace outbox
