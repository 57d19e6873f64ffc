// Where values come from: defaults, profile, file, environment, flags. Each is a layer of single
// values by path; a later layer covers an earlier one, value by value.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "relay/app/config_keys.h"
#include "relay/app/config_node.h"

namespace outbox {

using ConfigLayer = std::map<std::string, ConfigNode>;

// A value given on the command line.
struct FlagValue {
  std::string flag;  // --store
  std::string path;  // store.url
  std::string value;
};

// Puts what `node` gives for `path`, a setting or a section, into the layer. Unknown keys and
// sections that are no maps are added to `problems`.
void add_to_layer(ConfigLayer& layer, const std::string& path, const ConfigNode& node,
                  std::vector<Problem>& problems);

// The OUTBOX_RELAY__... variables. A broker's name in a variable is one of `brokers`, whatever its
// case; else it is the lower-cased text.
ConfigLayer environment_layer(const Environment& environment,
                              const std::vector<std::string>& brokers,
                              std::vector<Problem>& problems);

// The flags, later ones covering earlier ones.
ConfigLayer flag_layer(const std::vector<FlagValue>& flags, std::vector<Problem>& problems);

// Lays one layer over another. A setting replaces the one below, an entry of a map joins the map.
void cover(ConfigLayer& below, const ConfigLayer& above);

// The setting that is a map and has this entry: "store.columns" for "store.columns.id". Empty if
// there is none. An entry's name may have dots.
std::string map_of(const std::string& path);

// The default of a key, as if it had been written.
ConfigNode default_node(const ConfigKey& key);

// The keys that a profile sets, as a layer.
ConfigLayer profile_layer(const std::string& profile);

// What a profile sets beside keys.
void apply_profile(const std::string& profile, Settings& settings);

// The brokers that a layer names.
std::vector<std::string> brokers_of(const ConfigLayer& layer);

}  // namespace outbox
