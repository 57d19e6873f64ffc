#include "relay/app/config_routes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <span>

#include "relay/app/printable.h"
#include "relay/app/suggest.h"

namespace outbox {
namespace {

const std::array<std::string, 3> kRouteKeys = {"match", "broker", "destination"};
const std::array<std::string, 1> kMatchKeys = {"eventType"};

class RouteReader {
 public:
  explicit RouteReader(std::vector<Problem>& problems) : problems_(problems) {}

  Route read(const ConfigNode& node, const std::string& path) {
    Route route;
    if (!is_map(node, path)) return route;
    for (const auto& [key, value] : node.entries) {
      const std::string below = path + "." + key.text;
      if (key.text == "match") {
        read_match(value, below, route);
      } else if (key.text == "destination") {
        read_destination(value, below, route);
      } else if (key.text == "broker") {
        is_text(value, below);
      } else {
        unknown(key, below, kRouteKeys);
      }
    }
    return route;
  }

 private:
  void read_match(const ConfigNode& node, const std::string& path, Route& route) {
    if (!is_map(node, path)) return;
    for (const auto& [key, value] : node.entries) {
      const std::string below = path + "." + key.text;
      if (key.text != "eventType") {
        unknown(key, below, kMatchKeys);
      } else if (is_text(value, below)) {
        route.event_type = value.text;
        if (value.text.empty()) fail(value, below, "is empty; write * for every event type");
      }
    }
  }

  void read_destination(const ConfigNode& node, const std::string& path, Route& route) {
    if (!is_text(node, path)) return;
    route.destination = node.text;
    const std::string error = template_error(node.text);
    if (!error.empty()) fail(node, path, error);
  }

  bool is_map(const ConfigNode& node, const std::string& path) {
    if (node.kind == ConfigNode::Kind::map) return true;
    if (!node.broken) {
      fail(node, path,
           "must be a map, such as {match: {eventType: \"order.*\"}, destination: orders}");
    }
    return false;
  }

  bool is_text(const ConfigNode& node, const std::string& path) {
    if (node.kind == ConfigNode::Kind::scalar) return !node.broken;
    if (!node.broken) fail(node, path, "must be a single value");
    return false;
  }

  void unknown(const ConfigNode& key, const std::string& path,
               std::span<const std::string> candidates) {
    const std::string meant = did_you_mean(key.text, candidates);
    problems_.push_back(problem_at(
        key.origin, path,
        "unknown key" +
            (meant.empty() ? fmt::format("; there is {}", fmt::join(candidates, ", ")) : meant)));
  }

  void fail(const ConfigNode& node, const std::string& path, std::string reason) {
    problems_.push_back({node.origin, path, node.shown, std::move(reason)});
  }

  std::vector<Problem>& problems_;
};

}  // namespace

void read_routes(const ConfigNode& node, const std::string& path, std::vector<Route>& routes,
                 std::vector<Problem>& problems) {
  if (node.kind != ConfigNode::Kind::list) {
    problems.push_back(problem_at(node.origin, path, "must be a list of routes"));
    return;
  }
  RouteReader reader(problems);
  for (std::size_t index = 0; index < node.items.size(); ++index) {
    routes.push_back(reader.read(node.items[index], fmt::format("{}[{}]", path, index)));
  }
}

std::vector<RouteBroker> route_brokers(const ConfigNode& node) {
  std::vector<RouteBroker> brokers;
  for (std::size_t index = 0; index < node.items.size(); ++index) {
    for (const auto& [key, value] : node.items[index].entries) {
      const bool named = key.text == "broker" && value.kind == ConfigNode::Kind::scalar;
      if (!named || value.broken) continue;
      brokers.push_back({value.text, fmt::format("routes[{}].broker", index), value.origin});
    }
  }
  return brokers;
}

std::string format_route(const Route& route) {
  return fmt::format("{{match: {{eventType: {}}}, destination: \"{}\"}}",
                     printable(route.event_type), printable(route.destination));
}

}  // namespace outbox
