#include "publishers/rabbitmq/endpoint.h"

#include <amqp.h>
#include <fmt/format.h>

#include <utility>

#include "publishers/wire/secret_file.h"
#include "publishers/wire/text.h"

namespace outbox {

namespace {

constexpr std::size_t kShortStringMax = 255;

using Defects = std::vector<SettingDefect>;

void add_unusable(const PublisherSettings& settings, Defects& defects) {
  for (const auto& [name, set] : {std::pair("bearerTokenFile", !settings.bearer_token_file.empty()),
                                  std::pair("signingKeyFile", !settings.signing_key_file.empty()),
                                  std::pair("headers", !settings.headers.empty()),
                                  std::pair("headerFiles", !settings.header_files.empty()),
                                  std::pair("tls.serverName", !settings.tls.server_name.empty())}) {
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
  if (settings.username.empty() != settings.password_file.empty()) {
    defects.push_back({"username", "belongs together with passwordFile: one of them is missing"});
  }
  if (settings.password_file.empty()) return;
  if (settings.url.find('@') != std::string::npos) {
    defects.push_back({"username", fmt::format("the url names the user {} as well: remove one",
                                               endpoint.username)});
  }
  if (std::string error = read_secret(settings.password_file).error; !error.empty()) {
    defects.push_back({"passwordFile", std::move(error), settings.password_file});
  }
}

void add_tls(const PublisherSettings& settings, bool is_tls, Defects& defects) {
  const TlsSettings& tls = settings.tls;
  if (tls.cert_file.empty() != tls.key_file.empty()) {
    defects.push_back({"tls.certFile", "belongs together with tls.keyFile: one is missing"});
  }
  if (is_tls || (tls.ca_file.empty() && tls.cert_file.empty())) return;
  defects.push_back({"url",
                     "has tls settings beside it, which need amqps://: with amqp:// nothing "
                     "is encrypted"});
}

}  // namespace

ParsedAmqpEndpoint parse_amqp_endpoint(const std::string& url) {
  std::string text = url;  // the library cuts it into its parts
  amqp_connection_info parts{};
  amqp_default_connection_info(&parts);
  ParsedAmqpEndpoint parsed;
  if (amqp_parse_url(text.data(), &parts) != AMQP_STATUS_OK) {
    parsed.error = "is none of the form amqp[s]://[user[:password]@]host[:port][/vhost]";
    return parsed;
  }
  AmqpEndpoint& endpoint = parsed.endpoint;
  endpoint.tls = parts.ssl != 0;
  endpoint.host = parts.host;
  endpoint.port = parts.port;
  endpoint.vhost = *parts.vhost == '\0' ? "/" : parts.vhost;
  endpoint.username = parts.user;
  endpoint.password = parts.password;
  endpoint.label = fmt::format("{}:{}", endpoint.host, endpoint.port);
  if (endpoint.host.empty()) parsed.error = "names no host";
  if (endpoint.vhost.size() > kShortStringMax) {
    parsed.error = fmt::format("has a vhost of more than {} bytes", kShortStringMax);
  }
  return parsed;
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
