// Loads configurations from texts, with backends that are never opened.
#pragma once

#include <string>
#include <vector>

#include "relay/app/config.h"

namespace outbox {

inline Backends named_backends() {
  Backends backends;
  backends.stores["sqlite"] = {};
  for (const char* scheme : {"http", "https", "null", "stdout"}) backends.publishers[scheme] = {};
  return backends;
}

// A file that is removed with its owner.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

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
