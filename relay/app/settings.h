// What a configuration comes to: plain values that know nothing of files, flags or variables.
#pragma once

#include <string>
#include <vector>

#include "relay/app/units.h"
#include "relay/backends.h"
#include "relay/relay.h"
#include "relay/relay_loop.h"
#include "relay/retention.h"

namespace outbox {

enum class LogLevel { debug, info, warn, error };
enum class LogFormat { json, text };

struct LogSettings {
  LogFormat format = LogFormat::json;
  LogLevel level = LogLevel::info;
};

struct MetricsSettings {
  std::vector<std::string> event_types;  // series that exist from the start
  std::size_t event_type_limit = 20;     // further event types are counted together
  Duration sample_interval = std::chrono::seconds{15};
};

struct Settings {
  StoreSettings store;
  std::string broker = "main";  // its name, a label of metrics and logs
  PublisherSettings publisher;
  RelayOptions relay;
  LoopOptions loop;
  std::string on_stop;  // drain, finish; empty: drain with SQLite
  Duration stall_timeout = std::chrono::minutes{2};
  HostPort listen{"0.0.0.0", 9711};
  RetentionOptions retention;
  MetricsSettings metrics;
  LogSettings log;
  std::string profile;
};

}  // namespace outbox
