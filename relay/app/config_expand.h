// ${VAR} in configuration values.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "relay/app/units.h"

namespace outbox {

using Environment = std::map<std::string, std::string>;

// The environment of this process.
Environment process_environment();

// Replaces ${VAR}, ${VAR:-default} and ${VAR:?message}; $$ is one $. Any other $ stands for itself.
// What a variable holds is not expanded again, and line breaks in it are refused.
Parsed<std::string> expand(std::string_view text, const Environment& environment);

}  // namespace outbox
