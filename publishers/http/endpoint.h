// Where requests go: the broker's URL, taken apart and checked.
#pragma once

#include <cstdint>
#include <string>

namespace outbox {

struct Endpoint {
  bool tls = false;
  std::string host;  // a name or an address, without brackets
  std::uint16_t port = 0;
  std::string path;       // begins with a slash, percent-encoded as configured
  std::string query;      // with its question mark; empty if there is none
  std::string authority;  // for the Host header
  std::string label;      // host:port, for people
};

struct ParsedEndpoint {
  Endpoint endpoint;
  std::string error;  // what is wrong and what to do; empty if nothing
};

ParsedEndpoint parse_endpoint(const std::string& url);

// The URL as it may be shown: without user name, password and query, which may hold secrets.
std::string shown_url(const std::string& url);

}  // namespace outbox
