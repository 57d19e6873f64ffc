#include "relay/app/demo_events.h"

#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>

namespace outbox {

std::string_view embedded_demo_events();  // demo_events.jsonl, by the build

std::vector<DemoEvent> demo_events() {
  std::vector<DemoEvent> events;
  std::istringstream lines{std::string(embedded_demo_events())};
  for (std::string line; std::getline(lines, line);) {
    const auto parsed = nlohmann::json::parse(line);
    events.push_back({parsed.at("event_type").get<std::string>(),
                      parsed.at("ordering_key").get<std::string>(), parsed.at("payload").dump()});
  }
  return events;
}

}  // namespace outbox
