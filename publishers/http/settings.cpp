#include <fmt/format.h>

#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "publishers/http/broker_test.h"
#include "publishers/http/http_publisher.h"
#include "publishers/http/secret_file.h"
#include "publishers/http/signing.h"
#include "publishers/wire/fields.h"
#include "publishers/wire/text.h"

namespace outbox {

namespace {

constexpr std::size_t kConnectionsMax = 256;

std::string envelope_defect(const PublisherSettings& settings) {
  if (settings.envelope == "raw") return {};
  if (settings.envelope != "cloudevents-binary" && settings.envelope != "cloudevents-structured") {
    return fmt::format(
        "the envelope \"{}\" is not known to http: it takes cloudevents-binary, "
        "cloudevents-structured or raw",
        settings.envelope);
  }
  if (settings.source.empty()) return "source is empty: CloudEvents need one, such as /orders";
  const std::string_view source = settings.source;
  if (!is_valid_utf8(source) || has_control_character(source) ||
      source.find(' ') != std::string_view::npos) {
    return "source is not a URI reference: it has spaces or control characters";
  }
  return {};
}

std::string limits_defect(const PublisherSettings& settings) {
  if (settings.publish_timeout < std::chrono::milliseconds{1}) {
    return "publishTimeout must be at least 1ms";
  }
  if (settings.connections < 1 || settings.connections > kConnectionsMax) {
    return fmt::format("connections must be from 1 to {}", kConnectionsMax);
  }
  if (settings.queue_max == 0) return "the publisher's queue must hold at least one event";
  return {};
}

std::string secret_defect(const PublisherSettings& settings) {
  if (!settings.password_file.empty() && !settings.bearer_token_file.empty()) {
    return "passwordFile and bearerTokenFile exclude each other: remove one";
  }
  if (settings.username.empty() != settings.password_file.empty()) {
    return "username and passwordFile belong together: one of them is missing";
  }
  if (settings.username.find(':') != std::string::npos) return "username must not have a colon";
  if (!header_value_defect(settings.username).empty()) {
    return "username " + header_value_defect(settings.username);
  }
  if (!settings.password_file.empty()) {
    const std::string error = read_secret(settings.password_file).error;
    if (!error.empty()) return "passwordFile: " + error;
  }
  if (!settings.bearer_token_file.empty()) {
    const std::string error = read_secret(settings.bearer_token_file).error;
    if (!error.empty()) return "bearerTokenFile: " + error;
  }
  if (!settings.signing_key_file.empty()) {
    const std::string error = read_signing_keys(settings.signing_key_file).error;
    if (!error.empty()) return "signingKeyFile: " + error;
  }
  return {};
}

// Values are not shown: they may be secrets.
std::string header_defect(const PublisherSettings& settings, const std::string& name,
                          const std::string& value) {
  if (!is_header_name(name)) return fmt::format("headers: \"{}\" is not a header name", name);
  const bool authorization = to_lower(name) == "authorization";
  if (is_reserved_http_header(name) && !authorization) {
    return fmt::format("headers: {} is set by the relay and can't be configured", name);
  }
  if (authorization && !(settings.password_file.empty() && settings.bearer_token_file.empty())) {
    return "headers: Authorization is already made from passwordFile or bearerTokenFile";
  }
  const std::string why = header_value_defect(value);
  return why.empty() ? why : fmt::format("headers: the value of {} {}", name, why);
}

std::string headers_defect(const PublisherSettings& settings) {
  std::set<std::string> names;
  std::size_t bytes = 0;
  std::vector<Header> headers;
  for (const auto& [name, value] : settings.headers) headers.push_back({name, value});
  for (const auto& [name, file] : settings.header_files) {
    Secret secret = read_secret(file);
    if (!secret.error.empty()) return fmt::format("headerFiles: {}: {}", name, secret.error);
    headers.push_back({name, std::move(secret.text)});
  }
  for (const auto& [name, value] : headers) {
    if (std::string defect = header_defect(settings, name, value); !defect.empty()) return defect;
    if (!names.insert(to_lower(name)).second) {
      return fmt::format("headers: {} appears twice; upper and lower case make no difference",
                         name);
    }
    bytes += name.size() + value.size();
  }
  if (names.size() > kHeadersMax || bytes > kHeadersBytesMax) {
    return fmt::format("headers: more than {} of them, or more than {} bytes", kHeadersMax,
                       kHeadersBytesMax);
  }
  return {};
}

std::string tls_defect(const PublisherSettings& settings, bool is_tls) {
  const TlsSettings& tls = settings.tls;
  if (is_tls) return tls_files_defect(tls);
  if (tls.ca_file.empty() && tls.cert_file.empty() && tls.key_file.empty() &&
      tls.server_name.empty()) {
    return {};
  }
  return "tls settings need an https:// url; with http:// nothing is encrypted";
}

}  // namespace

std::string check_http_settings(const PublisherSettings& settings) {
  const ParsedEndpoint parsed = parse_endpoint(settings.url);
  std::string error = parsed.error;
  if (error.empty()) error = envelope_defect(settings);
  if (error.empty()) error = limits_defect(settings);
  if (error.empty()) error = secret_defect(settings);
  if (error.empty()) error = headers_defect(settings);
  if (error.empty()) error = tls_defect(settings, parsed.endpoint.tls);
  return error;
}

void add_http_publisher(Backends& backends) {
  PublisherBackend backend;
  backend.check = check_http_settings;
  backend.open = [](const PublisherSettings& settings, const Clock& clock, ReceiptSink& sink) {
    if (std::string error = check_http_settings(settings); !error.empty()) {
      throw SettingsError(error);
    }
    return std::unique_ptr<Publisher>(std::make_unique<HttpPublisher>(settings, clock, sink));
  };
  backend.test = test_http_broker;
  backends.publishers["http"] = backend;
  backends.publishers["https"] = std::move(backend);
}

}  // namespace outbox
