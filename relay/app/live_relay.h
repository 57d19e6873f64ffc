// What a running relay says of itself over HTTP.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "relay/app/units.h"

namespace outbox {

// Where to ask a server that listens on all interfaces.
std::string host_to_ask(const std::string& host);

// One sample of a metric; the name without outbox_relay_.
struct Sample {
  std::string name;
  std::map<std::string, std::string> labels;
  double value = 0;
};

// The samples of a text in Prometheus' format; lines that are none are passed over.
std::vector<Sample> parse_metrics(const std::string& text);

struct LiveRelay {
  bool answers = false;
  bool ready = false;
  std::string error;   // why it does not answer
  std::string state;   // of /readyz
  std::string reason;  // why it is not ready
  std::vector<Sample> samples;
  std::chrono::steady_clock::time_point asked_at;

  // The sum of all series of that name with this label, or with any.
  double sum(const std::string& name, const std::string& label = {},
             const std::string& value = {}) const;
  bool has(const std::string& name) const;
  // A label of the one series of that name whose value is not 0.
  std::string label(const std::string& name, const std::string& label) const;
};

// Where to ask the relay that listens there: such as http://127.0.0.1:9711.
std::string url_of(const HostPort& listen);

// Asks for /readyz and /metrics, at most a few seconds.
LiveRelay ask_relay(const std::string& url);

}  // namespace outbox
