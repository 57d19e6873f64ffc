// Routes: which destination a row goes to.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "relay/message.h"

namespace outbox {

struct Route {
  std::string event_type = "*";  // glob: * any run, ? one character
  // A template with {eventType}, {key} and {header.NAME} (any case); {{ and }} stand for braces.
  // Empty: the row's own destination, else the broker's.
  std::string destination;

  bool operator==(const Route&) const = default;
};

// Where one row goes, or why it can't go anywhere now.
struct Routed {
  std::string destination;  // empty: the broker's own
  std::string error;        // `no_route`, or a placeholder without a value
};

class Router {
 public:
  explicit Router(std::vector<Route> routes) : routes_(std::move(routes)) {}

  // First match wins. Without any route everything goes to the row's own or the broker's
  // destination. An empty value counts as none: it would leave a hole in the destination's name.
  Routed route(const Message& message) const;

 private:
  std::vector<Route> routes_;
};

// What is wrong with a template; empty if nothing. For the configuration check.
std::string template_error(const std::string& text);

// Whether all of `text` matches; a character is a UTF-8 one. Takes at most the product of both
// lengths, whatever the pattern.
bool glob_matches(std::string_view pattern, std::string_view text);

}  // namespace outbox
