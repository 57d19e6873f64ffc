// Every key of the configuration: one table that drives parsing, defaults, environment variables,
// printing and validation.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "relay/app/settings.h"

namespace outbox {

enum class ValueKind {
  text,
  url,        // text; shown without secrets
  choice,     // one of `choices`
  boolean,    // true, false
  count,      // a whole number
  number,     // a decimal
  duration,   // 30s
  retention,  // a duration or `never`
  size,       // 64MiB
  address,    // HOST:PORT
  texts,      // a list
  durations,  // a list
  text_map,   // names and values
  secrets,    // the same; only the names are shown
  routes,     // the list of routes
};

// A converted value: the member that its kind calls for is set, the others are not.
struct ConfigValue {
  std::string text;         // text, url, choice, retention
  bool truth = false;       // boolean
  std::uint64_t count = 0;  // count, size
  double number = 0;
  Duration duration{0};
  HostPort address;
  std::vector<std::string> texts;
  std::vector<Duration> durations;
  std::map<std::string, std::string> map;  // text_map, secrets
  std::vector<Route> routes;

  bool operator==(const ConfigValue&) const = default;
};

// What happens when a key that this version does nothing with is set to another value than its
// default. Where doing nothing could lose or leak something, it is an error.
enum class Unfinished { no, warn, refuse };

struct ConfigKey {
  std::string_view path;  // brokers.* stands for each broker
  ValueKind kind = ValueKind::text;
  std::string_view fallback;  // the default, as it would be written
  std::string_view low = {};  // count, number, duration, size: the least, as it would be written
  std::string_view high = {};
  // "a|b|c". Of a text_map: the entries that a variable, which is all capitals, may mean.
  std::string_view choices = {};
  void (*put)(Settings&, const ConfigValue&) = nullptr;  // null: nothing to set
  std::string_view about = {};                           // a sentence, for the schema
  Unfinished unfinished = Unfinished::no;
  std::string_view note = {};  // unfinished: what this version does instead
};

std::span<const ConfigKey> config_keys();

// The key of a concrete path (brokers.main.url), or null.
const ConfigKey* find_key(std::string_view path);

// Some key lies below this path: "", "relay", "brokers", "brokers.main".
bool is_section(std::string_view path);

// The names one level below a section; empty for "brokers", whose names are the user's.
std::vector<std::string> names_below(std::string_view section);

// "relay.leaseTerm" for brokers.*: with the broker's name put in.
std::string concrete_path(std::string_view pattern, std::string_view broker);

// "OUTBOX_RELAY__RELAY__LEASETERM"
std::string variable_of(std::string_view path);

std::vector<std::string> split(std::string_view text, std::string_view separator);

}  // namespace outbox
