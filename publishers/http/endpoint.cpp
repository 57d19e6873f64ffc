#include "publishers/http/endpoint.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <string_view>

#include "publishers/wire/text.h"

namespace outbox {

namespace {

struct Parts {
  std::string_view scheme;
  std::string_view authority;
  std::string_view path;
  std::string_view query;  // with its question mark
};

Parts split(std::string_view url) {
  Parts parts;
  const auto mark = url.find("://");
  if (mark == std::string_view::npos) return parts;
  parts.scheme = url.substr(0, mark);
  const std::string_view rest = url.substr(mark + 3);
  const auto end = std::min(rest.find_first_of("/?#"), rest.size());
  parts.authority = rest.substr(0, end);
  const auto question = std::min(rest.find('?', end), rest.size());
  parts.path = rest.substr(end, question - end);
  parts.query = rest.substr(question);
  return parts;
}

// Letters, digits and what RFC 3986 lets stand in a path or a query, with whole %XX triplets.
bool is_url_text(std::string_view text) {
  constexpr std::string_view kMarks = "-._~!$&'()*+,;=:@/?%";
  constexpr std::string_view kHex = "0123456789abcdefABCDEF";
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    const bool alphanumeric =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!alphanumeric && kMarks.find(c) == std::string_view::npos) return false;
    if (c != '%') continue;
    if (at + 2 >= text.size()) return false;
    if (kHex.find(text[at + 1]) == std::string_view::npos) return false;
    if (kHex.find(text[at + 2]) == std::string_view::npos) return false;
  }
  return true;
}

bool has_dot_segment(std::string_view path) {
  for (std::size_t at = 0; at < path.size();) {
    const auto end = std::min(path.find('/', at), path.size());
    const std::string_view segment = path.substr(at, end - at);
    if (segment == "." || segment == "..") return true;
    at = end + 1;
  }
  return false;
}

bool is_host_name(std::string_view host) {
  constexpr std::size_t kHostMax = 253;
  if (host.empty() || host.size() > kHostMax) return false;
  for (const char c : host) {
    const bool alphanumeric =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!alphanumeric && c != '-' && c != '.' && c != '_') return false;
  }
  return true;
}

bool is_ipv6(const std::string& host) {
  in6_addr address{};
  return ::inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

// Reads "host", "host:port", "[::1]" and "[::1]:port"; the port is left at 0 if there is none.
std::string parse_authority(std::string_view authority, Endpoint& endpoint) {
  std::string_view port;
  if (authority.starts_with('[')) {
    const auto close = authority.find(']');
    if (close == std::string_view::npos) return "the bracket around the address is not closed";
    endpoint.host = authority.substr(1, close - 1);
    if (!is_ipv6(endpoint.host)) return "the text in brackets is not an IPv6 address";
    port = authority.substr(close + 1);
    if (!port.empty() && !port.starts_with(':')) return "there is text behind the bracket";
  } else {
    const auto colon = std::min(authority.find(':'), authority.size());
    endpoint.host = authority.substr(0, colon);
    port = authority.substr(colon);
    if (endpoint.host.empty()) return "it names no host";
    if (!is_host_name(endpoint.host)) {
      return "its host has characters that a host name can't have (write international names as "
             "xn--..., IPv6 addresses in brackets)";
    }
  }
  if (port.empty()) return {};
  port.remove_prefix(1);
  std::uint32_t number = 0;
  for (const char c : port) {
    if (c < '0' || c > '9' || number > 65535) return "its port is not a number from 1 to 65535";
    number = number * 10 + static_cast<std::uint32_t>(c - '0');
  }
  if (number == 0 || number > 65535) return "its port is not a number from 1 to 65535";
  endpoint.port = static_cast<std::uint16_t>(number);
  return {};
}

std::string fill(const Parts& parts, Endpoint& endpoint) {
  const std::string scheme = to_lower(parts.scheme);
  if (scheme != "http" && scheme != "https") return "it does not begin with http:// or https://";
  if (parts.authority.find('@') != std::string_view::npos) {
    return "it holds a user name: use username and passwordFile instead";
  }
  if (std::string error = parse_authority(parts.authority, endpoint); !error.empty()) return error;
  if (parts.path.find('#') != std::string_view::npos ||
      parts.query.find('#') != std::string_view::npos) {
    return "it has a fragment (#...), which is never sent: remove it";
  }
  if (!is_url_text(parts.path) || !is_url_text(parts.query)) {
    return "its path or query has characters that must be written as %XX";
  }
  if (has_dot_segment(parts.path)) return "its path has a . or .. segment: write the plain path";
  endpoint.tls = scheme == "https";
  const std::uint16_t default_port = endpoint.tls ? 443 : 80;
  const bool has_default_port = endpoint.port == 0 || endpoint.port == default_port;
  if (endpoint.port == 0) endpoint.port = default_port;
  endpoint.path = parts.path.empty() ? "/" : parts.path;
  endpoint.query = parts.query;
  const bool bracketed = endpoint.host.find(':') != std::string::npos;
  const std::string host = bracketed ? "[" + endpoint.host + "]" : endpoint.host;
  endpoint.label = fmt::format("{}:{}", host, endpoint.port);
  endpoint.authority = has_default_port ? host : endpoint.label;
  return {};
}

}  // namespace

ParsedEndpoint parse_endpoint(const std::string& url) {
  ParsedEndpoint parsed;
  const std::string error = fill(split(url), parsed.endpoint);
  if (!error.empty()) {
    parsed.error = fmt::format("the broker's url \"{}\" can't be used: {}", shown_url(url), error);
  }
  return parsed;
}

std::string shown_url(const std::string& url) {
  std::string shown = url.substr(0, url.find_first_of("?#"));
  const auto mark = shown.find("://");
  const auto start = mark == std::string::npos ? 0 : mark + 3;
  const auto at = shown.rfind('@', shown.find('/', start));
  if (at != std::string::npos && at >= start) shown.erase(start, at - start + 1);
  for (char& c : shown) {
    if (c < ' ' || c > '~') c = '?';
  }
  return shown;
}

}  // namespace outbox
