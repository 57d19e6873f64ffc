// What a configuration that was read anew changes about the one in force.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "relay/app/config.h"

namespace outbox {

// Whether a change of this setting is taken over while the relay runs; else it needs a restart.
bool applies_at_once(std::string_view path);

struct ConfigChange {
  Config in_force;                      // the running one, with what applies at once
  std::vector<std::string> applied;     // paths
  std::vector<std::string> restarting;  // paths of what else differs: it needs a restart
};

// Both are usable. A profile, and with it each key that it sets, is exchanged as a whole: that
// needs a restart.
ConfigChange take_over(const Config& running, Config fresh);

// SHA-256 of all settings in force, without secrets: the same in two processes that run with the
// same ones.
std::string digest_of(const Config& config);

}  // namespace outbox
