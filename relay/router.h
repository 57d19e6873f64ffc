// Routes: which destination a row goes to.
#pragma once

#include <string>
#include <vector>

#include "relay/message.h"

namespace outbox {

struct Route {
  std::string event_type = "*";  // glob: * any run, ? one character
  std::string destination;       // {eventType} {key} {header.X}; empty: the row's own, else the broker's
};

// Where one row goes, or why it can't go anywhere now.
struct Routed {
  std::string destination;  // empty: the broker's own
  std::string error;        // `no_route`, or a placeholder without a value
};

class Router {
 public:
  explicit Router(std::vector<Route> routes) : routes_(std::move(routes)) {}

  // First match wins. Without any route everything goes to the row's own or the broker's destination.
  Routed route(const Message& message) const;

 private:
  std::vector<Route> routes_;
};

// What is wrong with a template; empty if nothing. For the configuration check.
std::string template_error(const std::string& text);

bool glob_matches(std::string_view pattern, std::string_view text);

}  // namespace outbox
