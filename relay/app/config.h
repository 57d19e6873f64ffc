// The configuration: read from defaults, a profile, a file, the environment and flags, checked as a
// whole, and turned into plain settings.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "relay/app/config_layers.h"
#include "relay/app/settings.h"
#include "relay/backends.h"

namespace outbox {

inline constexpr const char* kDefaultConfigFile = "/etc/outbox-relay/relay.yaml";

struct ConfigInput {
  std::string file = kDefaultConfigFile;
  bool file_required = false;    // somebody named it: that it is missing is a problem
  bool again = false;            // by a running relay, which must not wait for a pipe's writer
  std::vector<FlagValue> flags;  // a path "broker.url" stands for the url of the only broker
  Environment environment;
  bool needs_store = true;   // a command that doesn't touch the database does without
  bool needs_broker = true;  // one that doesn't publish does without
};

// One setting as it is in force.
struct EffectiveValue {
  std::string path;
  std::string text;  // as it would be written; secrets hidden
  Origin origin;
  ConfigValue value;
};

struct Config {
  ConfigInput input;                   // what it was read from, to read it anew
  bool from_file = false;              // there was a file
  Settings settings;                   // means something only without problems
  std::vector<Problem> problems;       // all that is wrong
  std::vector<std::string> warnings;   // what the user should know at start
  std::vector<EffectiveValue> values;  // in the order of the table
  bool usable() const { return problems.empty(); }
};

// Never throws; everything that is wrong is in the result. Touches no database and no broker.
Config load_config(const ConfigInput& input, const Backends& backends);

// Sets how long delivered rows of this table stay, if nobody says so: those of a table that the
// relay did not make, for ever.
void default_retention(Config& config, const StoreSettings& store);

// All problems, one line each, below a sentence that counts them.
std::string describe(const std::vector<Problem>& problems);

}  // namespace outbox
