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

// The brokers that the routes name, where they are named.
std::vector<std::pair<std::string, Origin>> route_brokers(const ConfigNode& node);

// "{match: {eventType: asset.*}, destination: "{eventType}"}"
std::string format_route(const Route& route);

}  // namespace outbox
