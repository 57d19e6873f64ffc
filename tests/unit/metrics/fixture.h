// A clock that stands still, and metrics read back from their text.
#pragma once

#include <map>
#include <sstream>
#include <string>

#include "metrics/metrics.h"

namespace outbox {

class StillClock : public Clock {
 public:
  Time now() const override { return now_; }
  void advance(Duration by) { now_ += by; }

 private:
  Time now_{std::chrono::hours{5}};
};

// The exposition, taken apart. A sample's key is its text up to the value, e.g.
// `up{broker="main"}`.
struct Scrape {
  explicit Scrape(std::string exposition) : text(std::move(exposition)) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string hash, what, name;
      if (line.starts_with("#")) {
        words >> hash >> what >> name;
        std::string rest;
        std::getline(words >> std::ws, rest);
        (what == "HELP" ? help : type)[name] = rest;
      } else if (const std::size_t space = line.rfind(' '); space != std::string::npos) {
        samples[line.substr(0, space)] = std::stod(line.substr(space + 1));
      }
    }
  }

  // The sample of that name below the common prefix.
  double operator[](const std::string& key) const {
    const auto found = samples.find("outbox_relay_" + key);
    return found == samples.end() ? -1 : found->second;
  }

  std::string text;
  std::map<std::string, std::string> help;
  std::map<std::string, std::string> type;
  std::map<std::string, double> samples;
};

inline const WallTime kNoon{std::chrono::seconds{1'800'000'000}};

// Metrics of a relay whose broker is called main, at a time that only the test moves.
struct MetricsFixture {
  StillClock clock;
  WallTime wall = kNoon;
  MetricsOptions options{.broker = "main",
                         .endpoint = "https://relay:secret@events.example.com/inbox?token=secret",
                         .version = "1.2.3",
                         .revision = "abc",
                         .config_sha256 = "d1",
                         .in_flight_limit = 256,
                         .sqlite_wal_file = {},
                         .event_types = {},
                         .event_type_limit = 20,
                         .wall_clock = [this] { return wall; }};

  void advance(Duration by) {
    clock.advance(by);
    wall += std::chrono::duration_cast<WallTime::duration>(by);
  }
};

inline Message message_of(const std::string& event_type) {
  Message message;
  message.event_type = event_type;
  return message;
}

}  // namespace outbox
