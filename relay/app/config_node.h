// A configuration document as a tree that remembers where each value stands.
#pragma once

#include <string>
#include <vector>

#include "relay/app/config_expand.h"
#include "relay/app/config_problem.h"

namespace outbox {

struct ConfigEntry;

struct ConfigNode {
  enum class Kind { nothing, scalar, list, map };

  Kind kind = Kind::nothing;
  Origin origin;
  std::string text;                  // of a scalar, variables expanded
  std::string shown;                 // as it was written: what a variable holds may be secret
  bool broken = false;               // a problem with it has been told; its text means nothing
  std::vector<ConfigNode> items;     // of a list
  std::vector<ConfigEntry> entries;  // of a map
};

struct ConfigEntry {
  ConfigNode key;  // a scalar
  ConfigNode value;
};

// A scalar that is taken as it is.
ConfigNode scalar_node(Origin origin, std::string text);

// Reads one YAML document that stands for the setting or section `path` (empty: all of them).
// Lines and columns are those of `text` if the origin is a file; else all values share the origin.
// Variables are expanded if an environment is given. What is wrong is added to `problems`: syntax,
// more than one document, duplicate keys, too much nesting.
ConfigNode parse_yaml(const std::string& text, const std::string& path, const Origin& origin,
                      const Environment* environment, std::vector<Problem>& problems);

}  // namespace outbox
