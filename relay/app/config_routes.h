// The `routes` list.
#pragma once

#include <string>
#include <vector>

#include "relay/app/config_node.h"
#include "relay/router.h"

namespace outbox {

// Reads the list. What is wrong with it, unknown keys and bad templates included, is added to
// `problems`. Which brokers exist is checked elsewhere: see route_brokers().
void read_routes(const ConfigNode& node, const std::string& path, std::vector<Route>& routes,
                 std::vector<Problem>& problems);

// A broker that a route names, and where.
struct RouteBroker {
  std::string name;
  std::string path;
  Origin origin;
};
std::vector<RouteBroker> route_brokers(const ConfigNode& node);

// "{match: {eventType: asset.*}, destination: "{eventType}"}"
std::string format_route(const Route& route);

}  // namespace outbox
