#include "publishers/rabbitmq/endpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "publishers/rabbitmq/amqp_tls.h"
#include "publishers/wire/secret_file.h"
#include "publishers/wire/text.h"

namespace outbox {

namespace {

constexpr std::size_t kShortStringMax = 255;
constexpr const char* kGuest = "guest";  // has a password that all know
constexpr int kPort = 5672;
constexpr int kTlsPort = 5671;

using Defects = std::vector<SettingDefect>;

void add_unusable(const PublisherSettings& settings, Defects& defects) {
  for (const auto& [name, set] : {std::pair("bearerTokenFile", !settings.bearer_token_file.empty()),
                                  std::pair("signingKeyFile", !settings.signing_key_file.empty()),
                                  std::pair("headers", !settings.headers.empty()),
                                  std::pair("headerFiles", !settings.header_files.empty())}) {
    if (set) defects.push_back({name, "is nothing that amqp knows: remove it"});
  }
}

void add_envelope(const PublisherSettings& settings, Defects& defects) {
  const std::string& envelope = settings.envelope;
  if (envelope == "raw") return;
  if (envelope != "cloudevents-binary" && envelope != "cloudevents-structured") {
    defects.push_back({"envelope",
                       "is not known to amqp: it takes cloudevents-binary, cloudevents-structured "
                       "or raw"});
  } else if (settings.source.empty()) {
    defects.push_back({"source", "is empty: CloudEvents need one, such as /orders"});
  }
}

void add_exchange(const char* setting, const std::string& name, Defects& defects) {
  if (name.size() <= kShortStringMax && is_valid_utf8(name)) return;
  defects.push_back(
      {setting, fmt::format("is no UTF-8 text of at most {} bytes", kShortStringMax)});
}

void add_secret(const PublisherSettings& settings, const AmqpEndpoint& endpoint, Defects& defects) {
  const bool named = !settings.username.empty();
  if (named && endpoint.names_user) {
    defects.push_back({"username", fmt::format("the url names the user {} as well: remove one",
                                               endpoint.username)});
  }
  if (settings.password_file.empty()) {
    if (named || endpoint.username != kGuest) {
      defects.push_back(
          {"passwordFile", fmt::format("is missing: name a file with the password of "
                                       "the user {}",
                                       named ? settings.username : endpoint.username)});
    }
    return;
  }
  if (!named && !endpoint.names_user) {
    defects.push_back({"username", "is missing: passwordFile needs somebody whose password it is"});
  }
  if (std::string error = read_secret(settings.password_file).error; !error.empty()) {
    defects.push_back({"passwordFile", std::move(error), settings.password_file});
  }
}

void add_tls(const PublisherSettings& settings, bool is_tls, Defects& defects) {
  const TlsSettings& tls = settings.tls;
  if (is_tls) {
    for (SettingDefect& defect : amqp_tls_files_defects(tls)) defects.push_back(std::move(defect));
    return;
  }
  if (tls.ca_file.empty() && tls.cert_file.empty() && tls.key_file.empty() &&
      tls.server_name.empty()) {
    return;
  }
  defects.push_back({"url",
                     "has tls settings beside it, which need amqps://: with amqp:// nothing "
                     "is encrypted"});
}

// The text that %XX stand for; nothing if they don't, or stand for a NUL.
std::optional<std::string> percent_decoded(std::string_view text) {
  std::string decoded;
  for (std::size_t at = 0; at < text.size(); ++at) {
    char byte = text[at];
    if (byte == '%') {
      unsigned value = 0;
      const std::string_view digits = text.substr(at + 1, 2);
      const auto [end, error] = std::from_chars(digits.begin(), digits.end(), value, 16);
      if (digits.size() != 2 || error != std::errc{} || end != digits.end()) return std::nullopt;
      byte = static_cast<char>(value);
      at += 2;
    }
    if (byte == '\0') return std::nullopt;
    decoded += byte;
  }
  return decoded;
}

// "user:password" before the @.
bool take_user(std::string_view text, AmqpEndpoint& endpoint) {
  const auto colon = std::min(text.find(':'), text.size());
  const auto user = percent_decoded(text.substr(0, colon));
  const auto password =
      percent_decoded(colon == text.size() ? text.substr(colon) : text.substr(colon + 1));
  if (!user || !password || user->empty()) return false;
  endpoint.username = *user;
  if (colon != text.size()) endpoint.password = *password;
  return true;
}

// "host", "host:port", "[::1]" or "[::1]:port".
std::string take_host(std::string_view text, AmqpEndpoint& endpoint) {
  std::string_view port;
  const bool bracketed = text.starts_with('[');
  if (bracketed) {
    const auto close = text.find(']');
    if (close == std::string_view::npos) return "has a bracket that is not closed";
    endpoint.host = text.substr(1, close - 1);
    port = text.substr(close + 1);
    if (!port.empty() && !port.starts_with(':')) return "has text behind the bracket";
  } else {
    const auto colon = std::min(text.find(':'), text.size());
    endpoint.host = text.substr(0, colon);
    port = text.substr(colon);
  }
  if (endpoint.host.empty()) return "names no host";
  endpoint.port = endpoint.tls ? kTlsPort : kPort;
  if (!port.empty()) {
    const auto [end, error] = std::from_chars(port.begin() + 1, port.end(), endpoint.port);
    if (error != std::errc{} || end != port.end() || endpoint.port < 1 || endpoint.port > 65535) {
      return "has a port that is no number from 1 to 65535";
    }
  }
  endpoint.label = bracketed ? fmt::format("[{}]:{}", endpoint.host, endpoint.port)
                             : fmt::format("{}:{}", endpoint.host, endpoint.port);
  return {};
}

std::string take_vhost(std::string_view text, AmqpEndpoint& endpoint) {
  if (text.empty()) return {};
  const auto vhost = percent_decoded(text);
  if (!vhost || !is_valid_utf8(*vhost)) return "has a vhost that is not percent-encoded UTF-8";
  if (text.find('/') != std::string_view::npos) {
    return "has a slash in the vhost: write %2f for it";
  }
  if (vhost->size() > kShortStringMax) {
    return fmt::format("has a vhost of more than {} bytes", kShortStringMax);
  }
  endpoint.vhost = *vhost;
  return {};
}

std::string parse(std::string_view url, AmqpEndpoint& endpoint) {
  const auto mark = url.find("://");
  const std::string scheme = to_lower(url.substr(0, std::min(mark, url.size())));
  if (mark == std::string_view::npos || (scheme != "amqp" && scheme != "amqps")) {
    return "does not begin with amqp:// or amqps://";
  }
  endpoint.tls = scheme == "amqps";
  const std::string_view rest = url.substr(mark + 3);
  if (rest.find_first_of("?#") != std::string_view::npos) {
    return "has a query or a fragment, which nobody would read: remove it, and write %3f for a "
           "question mark";
  }
  const auto slash = std::min(rest.find('/'), rest.size());
  std::string_view authority = rest.substr(0, slash);
  if (const auto at = authority.rfind('@'); at != std::string_view::npos) {
    if (!take_user(authority.substr(0, at), endpoint)) {
      return "has a user that is not percent-encoded";
    }
    endpoint.names_user = true;
    authority.remove_prefix(at + 1);
  }
  if (std::string error = take_host(authority, endpoint); !error.empty()) return error;
  return take_vhost(slash == rest.size() ? rest.substr(slash) : rest.substr(slash + 1), endpoint);
}

}  // namespace

ParsedAmqpEndpoint parse_amqp_endpoint(const std::string& url) {
  ParsedAmqpEndpoint parsed;
  parsed.error = parse(url, parsed.endpoint);
  return parsed;
}

std::string read_login(const PublisherSettings& settings, AmqpEndpoint& endpoint) {
  if (settings.password_file.empty()) return {};
  Secret password = read_secret(settings.password_file);
  if (!password.error.empty()) return "passwordFile: " + password.error;
  if (!settings.username.empty()) endpoint.username = settings.username;
  endpoint.password = std::move(password.text);
  return {};
}

std::vector<SettingDefect> check_rabbitmq_settings(const PublisherSettings& settings) {
  const ParsedAmqpEndpoint parsed = parse_amqp_endpoint(settings.url);
  Defects defects;
  if (!parsed.error.empty()) defects.push_back({"url", parsed.error});
  add_unusable(settings, defects);
  add_envelope(settings, defects);
  add_exchange("exchange", settings.exchange, defects);
  add_exchange("unroutableExchange", settings.unroutable_exchange, defects);
  add_secret(settings, parsed.endpoint, defects);
  add_tls(settings, parsed.endpoint.tls, defects);
  return defects;
}

}  // namespace outbox
