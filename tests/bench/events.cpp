#include "tests/bench/events.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace outbox::bench {

std::vector<Event> load_events(const std::string& path) {
  std::ifstream file(path);
  std::vector<Event> events;
  std::string line;
  while (std::getline(file, line)) {
    if (line.empty()) continue;
    const auto object = nlohmann::json::parse(line);
    events.push_back({object.at("event_type").get<std::string>(),
                      object.at("ordering_key").get<std::string>(), object.at("payload").dump()});
  }
  if (events.empty()) throw std::runtime_error(fmt::format("{} holds no events", path));
  return events;
}

}  // namespace outbox::bench
