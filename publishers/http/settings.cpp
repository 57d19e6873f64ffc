#include <fmt/format.h>

#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "publishers/http/broker_test.h"
#include "publishers/http/http_publisher.h"
#include "publishers/http/signing.h"
#include "publishers/wire/fields.h"
#include "publishers/wire/secret_file.h"
#include "publishers/wire/text.h"

namespace outbox {

namespace {

constexpr std::size_t kConnectionsMax = 256;

class Checks {
 public:
  explicit Checks(const PublisherSettings& settings) : settings_(settings) {}

  std::vector<SettingDefect> run() {
    const ParsedEndpoint parsed = parse_endpoint(settings_.url);
    if (!parsed.error.empty()) fail("url", parsed.error);
    check_envelope();
    check_limits();
    check_authorization();
    check_file("passwordFile", settings_.password_file, read_secret);
    check_file("bearerTokenFile", settings_.bearer_token_file, read_secret);
    check_file("signingKeyFile", settings_.signing_key_file, read_signing_keys);
    check_headers();
    if (parsed.error.empty()) check_tls(parsed.endpoint.tls);
    return std::move(defects_);
  }

 private:
  void fail(std::string setting, std::string text, std::string file = {}) {
    defects_.push_back({std::move(setting), std::move(text), std::move(file)});
  }

  template <class Read>
  void check_file(const char* setting, const std::string& file, const Read& read) {
    if (file.empty()) return;
    std::string error = read(file).error;
    if (!error.empty()) fail(setting, std::move(error), file);
  }

  void check_envelope() {
    const std::string& envelope = settings_.envelope;
    if (envelope == "raw") return;
    if (envelope != "cloudevents-binary" && envelope != "cloudevents-structured") {
      return fail("envelope",
                  fmt::format("\"{}\" is not known to http: it takes cloudevents-binary, "
                              "cloudevents-structured or raw",
                              envelope));
    }
    const std::string_view source = settings_.source;
    if (source.empty()) return fail("source", "is empty: CloudEvents need one, such as /orders");
    if (!is_valid_utf8(source) || has_control_character(source) ||
        source.find(' ') != std::string_view::npos) {
      fail("source", "is not a URI reference: it has spaces or control characters");
    }
  }

  void check_limits() {
    if (settings_.publish_timeout < std::chrono::milliseconds{1}) {
      fail("publishTimeout", "must be at least 1ms");
    }
    if (settings_.connections < 1 || settings_.connections > kConnectionsMax) {
      fail("connections", fmt::format("must be from 1 to {}", kConnectionsMax));
    }
    if (settings_.queue_max == 0) {
      fail("connections", "the publisher's queue must hold at least one event");
    }
  }

  void check_authorization() {
    const std::string& username = settings_.username;
    if (!settings_.password_file.empty() && !settings_.bearer_token_file.empty()) {
      fail("bearerTokenFile", "passwordFile and bearerTokenFile exclude each other: remove one");
    }
    if (username.empty() != settings_.password_file.empty()) {
      fail(username.empty() ? "passwordFile" : "username",
           "username and passwordFile belong together: one of them is missing");
    }
    if (username.find(':') != std::string::npos) fail("username", "must not have a colon");
    const std::string defect = header_value_defect(username);
    if (!defect.empty()) fail("username", defect);
  }

  void check_headers() {
    for (const auto& [name, value] : settings_.headers) {
      check_header("headers." + name, name, value, "");
    }
    for (const auto& [name, file] : settings_.header_files) {
      const std::string setting = "headerFiles." + name;
      const Secret secret = read_secret(file);
      if (!secret.error.empty()) fail(setting, secret.error, file);
      check_header(setting, name, secret.error.empty() ? secret.text : "", file);
    }
    if (names_.size() > kHeadersMax || bytes_ > kHeadersBytesMax) {
      fail("headers", fmt::format("more than {} of them, or more than {} bytes", kHeadersMax,
                                  kHeadersBytesMax));
    }
  }

  // Values are not shown: they may be secrets.
  void check_header(const std::string& setting, const std::string& name, const std::string& value,
                    const std::string& file) {
    if (!is_header_name(name)) {
      return fail(setting, fmt::format("\"{}\" is not a header name", name));
    }
    const bool authorization = to_lower(name) == "authorization";
    const bool authorized =
        !settings_.password_file.empty() || !settings_.bearer_token_file.empty();
    if (authorization && authorized) {
      fail(setting, "Authorization is already made from passwordFile or bearerTokenFile");
    } else if (!authorization && is_reserved_http_header(name)) {
      fail(setting, fmt::format("{} is set by the relay and can't be configured", name));
    } else if (!names_.insert(to_lower(name)).second) {
      fail(setting, fmt::format("{} appears twice; upper and lower case make no difference", name));
    }
    const std::string why = header_value_defect(value);
    if (!why.empty()) fail(setting, "the value " + why, file);
    bytes_ += name.size() + value.size();
  }

  void check_tls(bool is_tls) {
    const TlsSettings& tls = settings_.tls;
    if (is_tls) {
      for (SettingDefect& defect : tls_files_defects(tls)) defects_.push_back(std::move(defect));
      return;
    }
    if (tls.ca_file.empty() && tls.cert_file.empty() && tls.key_file.empty() &&
        tls.server_name.empty()) {
      return;
    }
    fail("url", "tls settings need an https:// url; with http:// nothing is encrypted");
  }

  const PublisherSettings& settings_;
  std::vector<SettingDefect> defects_;
  std::set<std::string> names_;
  std::size_t bytes_ = 0;
};

}  // namespace

std::vector<SettingDefect> check_http_settings(const PublisherSettings& settings) {
  return Checks(settings).run();
}

void add_http_publisher(Backends& backends) {
  PublisherBackend backend;
  backend.check = check_http_settings;
  backend.open = [](const PublisherSettings& settings, const Clock& clock, ReceiptSink& sink) {
    const auto defects = check_http_settings(settings);
    if (!defects.empty()) throw SettingsError(describe(defects));
    return std::unique_ptr<Publisher>(std::make_unique<HttpPublisher>(settings, clock, sink));
  };
  backend.test = test_http_broker;
  backend.explain = explain_http_receipt;
  backends.publishers["http"] = backend;
  backends.publishers["https"] = std::move(backend);
}

}  // namespace outbox
