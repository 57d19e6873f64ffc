#include <doctest/doctest.h>
#include <sys/stat.h>

#include "publishers/http/http_publisher.h"
#include "publishers/wire/secret_file.h"
#include "tests/temporary_file.h"
#include "tests/temporary_folder.h"

namespace outbox {

namespace {

PublisherSettings good_settings() {
  PublisherSettings settings;
  settings.url = "https://events.example.com/inbox";
  settings.source = "/outbox-relay/outbox_messages";
  return settings;
}

std::string defects_of(const PublisherSettings& settings) {
  return describe(check_http_settings(settings));
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a pipe in the place of a secret is refused rather than waited for") {
  const testing::TemporaryFolder folder;
  const std::string path = folder.file("token");
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  CHECK(read_secret(path).error == path + " is a pipe: name a file");
}

TEST_CASE("a pipe in the place of a certificate or a key is refused rather than waited for") {
  const testing::TemporaryFolder folder;
  const std::string path = folder.file("pipe");
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  auto settings = good_settings();
  settings.url = "https://localhost/";
  settings.tls.ca_file = path;
  settings.tls.cert_file = path;
  settings.tls.key_file = path;
  const std::string defects = defects_of(settings);
  for (const char* setting : {"tls.caFile", "tls.certFile", "tls.keyFile"}) {
    CHECK(contains(defects, setting + (": " + path) + " can't be loaded: it is a pipe"));
  }
}

TEST_CASE("headers in files are checked like those in the configuration") {
  const TemporaryFile secret("a-key\n");
  const TemporaryFile two_lines("a\nb\n");
  const auto error_of = [](std::map<std::string, std::string> files,
                           std::map<std::string, std::string> headers) {
    auto settings = good_settings();
    settings.header_files = std::move(files);
    settings.headers = std::move(headers);
    return defects_of(settings);
  };
  CHECK(error_of({{"X-Api-Key", secret.path()}}, {{"X-Tenant", "acme"}}) == "");
  CHECK(
      contains(error_of({{"X-Api-Key", "/no/such/file"}}, {}), "headerFiles.X-Api-Key: the file"));
  CHECK(contains(error_of({{"X-Api-Key", two_lines.path()}}, {}), "one line"));
  CHECK(contains(error_of({{"x-key", secret.path()}}, {{"X-Key", "1"}}), "appears twice"));
  CHECK(contains(error_of({{"Content-Type", secret.path()}}, {}), "is set by the relay"));
  CHECK(contains(error_of({{"X Key", secret.path()}}, {}), "is not a header name"));
}

TEST_CASE("a url is taken apart") {
  const auto endpoint = [](const std::string& url) {
    const ParsedEndpoint parsed = parse_endpoint(url);
    CHECK(parsed.error == "");
    return parsed.endpoint;
  };
  CHECK(endpoint("http://h").path == "/");
  CHECK(endpoint("http://h").port == 80);
  CHECK(endpoint("https://h").port == 443);
  CHECK(endpoint("https://h").tls);
  CHECK(endpoint("HTTPS://h").tls);
  CHECK_FALSE(endpoint("http://h").tls);
  CHECK(endpoint("http://h:8080/a%20b?x=1&y=/2").path == "/a%20b");
  CHECK(endpoint("http://h:8080/a?x=1&y=/2").query == "?x=1&y=/2");
  CHECK(endpoint("http://h?x=1").path == "/");
  CHECK(endpoint("http://h:8080/").authority == "h:8080");
  CHECK(endpoint("http://h:80/").authority == "h");
  CHECK(endpoint("https://h:80/").authority == "h:80");
  CHECK(endpoint("http://[::1]:8080/").host == "::1");
  CHECK(endpoint("http://[::1]/").authority == "[::1]");
  CHECK(endpoint("http://[::1]:8080/").label == "[::1]:8080");
  CHECK(endpoint("https://h").label == "h:443");
}

TEST_CASE("a url that can't be used says why") {
  struct Row {
    const char* url;
    const char* why;
  };
  for (const Row& row : std::initializer_list<Row>{
           {"http:/h", "http://"},
           {"ftp://h/", "http://"},
           {"http://", "names no host"},
           {"http:///path", "names no host"},
           {"http://:80/", "names no host"},
           {"http://h:0/", "port"},
           {"http://h:65536/", "port"},
           {"http://h:99999999999999999999/", "port"},
           {"http://h:http/", "port"},
           {"http://h:-1/", "port"},
           {"http://h/#top", "fragment"},
           {"http://h?x#top", "fragment"},
           {"http://user:pass@h/", "passwordFile"},
           {"http://h/a b", "%XX"},
           {"http://h/a%2", "%XX"},
           {"http://h/a%zz", "%XX"},
           {"http://h/\xC3\xBC", "%XX"},
           {"http://h/a\r\nX: 1", "%XX"},
           {"http://h/a/../b", ".."},
           {"http://h/./b", ".."},
           {"http://b\xC3\xBC"
            "cher.example/",
            "xn--"},
           {"http://h ost/", "host"},
           {"http://[::1/", "bracket"},
           {"http://[h]/", "IPv6"},
           {"http://[::1]x/", "bracket"},
           {"http://::1/", "names no host"},
       }) {
    CAPTURE(row.url);
    const std::string error = parse_endpoint(row.url).error;
    CAPTURE(error);
    CHECK(contains(error, row.why));
  }
}

TEST_CASE("a url is shown without its secrets") {
  CHECK(shown_url("http://user:pa@ss@h:80/p?code=secret#f") == "http://h:80/p");
  CHECK(shown_url("http://h/@p") == "http://h/@p");
  CHECK_FALSE(contains(parse_endpoint("http://user:secret@h/").error, "secret"));
  CHECK_FALSE(contains(parse_endpoint("http://h:x/?secret").error, "secret"));
}

TEST_CASE("good settings pass") {
  CHECK(defects_of(good_settings()) == "");
  PublisherSettings raw = good_settings();
  raw.envelope = "raw";
  raw.source.clear();
  CHECK(defects_of(raw) == "");
  PublisherSettings structured = good_settings();
  structured.envelope = "cloudevents-structured";
  const TemporaryFile keys("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n");
  structured.signing_key_file = keys.path();
  CHECK(defects_of(structured) == "");
}

TEST_CASE("settings that can't work are found before anything connects") {
  const TemporaryFile secret("secret\n");
  const TemporaryFile empty("");
  const TemporaryFile two_lines("one\ntwo\n");
  const auto error_of = [](auto change) {
    PublisherSettings settings = good_settings();
    change(settings);
    return defects_of(settings);
  };
  using Settings = PublisherSettings;
  const std::string envelope = error_of([](Settings& s) { s.envelope = "masstransit"; });
  CHECK(contains(envelope, "cloudevents-structured or raw"));
  CHECK(contains(envelope, "masstransit"));
  CHECK(contains(error_of([](Settings& s) { s.source = ""; }), "source: is empty"));
  CHECK(contains(error_of([](Settings& s) { s.source = "a b"; }), "source"));
  CHECK(contains(error_of([](Settings& s) { s.publish_timeout = {}; }), "publishTimeout"));
  CHECK(contains(error_of([](Settings& s) { s.connections = 0; }), "connections"));
  CHECK(contains(error_of([](Settings& s) { s.connections = 257; }), "connections"));
  CHECK(contains(error_of([](Settings& s) { s.queue_max = 0; }), "queue"));
  CHECK(contains(error_of([](Settings& s) { s.username = "u"; }), "passwordFile"));
  CHECK(contains(error_of([&](Settings& s) { s.password_file = secret.path(); }), "username"));
  CHECK(contains(error_of([&](Settings& s) {
                   s.username = "u";
                   s.password_file = secret.path();
                   s.bearer_token_file = secret.path();
                 }),
                 "exclude"));
  CHECK(contains(error_of([](Settings& s) { s.bearer_token_file = "/no/such/file"; }),
                 "bearerTokenFile: the file /no/such/file can't be read: No such file"));
  CHECK(contains(error_of([&](Settings& s) { s.bearer_token_file = empty.path(); }), "is empty"));
  CHECK(
      contains(error_of([&](Settings& s) { s.bearer_token_file = two_lines.path(); }), "one line"));
  CHECK(contains(error_of([&](Settings& s) { s.signing_key_file = secret.path(); }),
                 "signingKeyFile: the file " + secret.path() + ", line 1"));
  CHECK(contains(error_of([](Settings& s) { s.signing_key_file = "/no/such/file"; }),
                 "signingKeyFile: the file /no/such/file can't be read: No such file"));
  CHECK(contains(error_of([](Settings& s) { s.headers = {{"X A", "1"}}; }), "not a header name"));
  CHECK(contains(error_of([](Settings& s) { s.headers = {{"ce-id", "1"}}; }), "ce-id"));
  CHECK(contains(error_of([](Settings& s) { s.headers = {{"Host", "h"}}; }), "Host"));
  const std::string header = error_of([](Settings& s) { s.headers = {{"X-A", "hidden\n"}}; });
  CHECK(contains(header, "X-A"));
  CHECK_FALSE(contains(header, "hidden"));
  for (const char* name : {"webhook-id", "Webhook-Signature", "Content-Type", "Outbox-Attempt",
                           "Idempotency-Key", "Transfer-Encoding"}) {
    CAPTURE(name);
    CHECK(contains(error_of([&](Settings& s) { s.headers = {{name, "1"}}; }), name));
  }
  CHECK(contains(error_of([](Settings& s) {
                   s.headers = {{"X-Tenant", "1"}, {"x-tenant", "2"}};
                 }),
                 "appears twice"));
  CHECK(contains(error_of([&](Settings& s) {
                   s.bearer_token_file = secret.path();
                   s.headers = {{"authorization", "hidden"}};
                 }),
                 "already made from"));
  CHECK(contains(error_of([](Settings& s) {
                   for (int i = 0; i < 65; ++i) s.headers["X-" + std::to_string(i)] = "1";
                 }),
                 "more than 64"));
  CHECK(contains(error_of([](Settings& s) {
                   for (int i = 0; i < 3; ++i) {
                     s.headers["X-" + std::to_string(i)] = std::string(6000, 'v');
                   }
                 }),
                 "more than 16384 bytes"));
  CHECK(error_of([](Settings& s) { s.headers = {{"Authorization", "ApiKey k"}}; }) == "");
  CHECK(contains(error_of([](Settings& s) { s.tls.ca_file = "/no/ca.pem"; }), "/no/ca.pem"));
  CHECK(contains(error_of([&](Settings& s) { s.tls.ca_file = secret.path(); }), "tls.caFile"));
  CHECK(contains(error_of([](Settings& s) { s.tls.cert_file = "/c.pem"; }), "tls.keyFile"));
  CHECK(contains(error_of([&](Settings& s) {
                   s.url = "http://h/";
                   s.tls.server_name = "x";
                 }),
                 "https://"));
}

TEST_CASE("all that is wrong is told, with the setting and the file that it stands in") {
  const TemporaryFile garbage("secret\n");
  PublisherSettings settings = good_settings();
  settings.bearer_token_file = "/no/token";
  settings.signing_key_file = garbage.path();
  settings.header_files = {{"X-Api-Key", "/no/key"}};
  settings.headers = {{"Host", "h"}};
  settings.tls = {.ca_file = "/no/ca.pem",
                  .cert_file = garbage.path(),
                  .key_file = "/no/own.key",
                  .server_name = ""};
  std::vector<std::pair<std::string, std::string>> found;
  for (const SettingDefect& defect : check_http_settings(settings)) {
    found.emplace_back(defect.setting, defect.file);
  }
  CHECK(found ==
        std::vector<std::pair<std::string, std::string>>{{"bearerTokenFile", "/no/token"},
                                                         {"signingKeyFile", garbage.path()},
                                                         {"headers.Host", ""},
                                                         {"headerFiles.X-Api-Key", "/no/key"},
                                                         {"tls.caFile", "/no/ca.pem"},
                                                         {"tls.certFile", garbage.path()},
                                                         {"tls.keyFile", "/no/own.key"}});
  CHECK(contains(defects_of(settings),
                 "tls.caFile: /no/ca.pem can't be loaded: No such file or directory"));
}

TEST_CASE("both schemes are registered and open checks the settings first") {
  Backends backends;
  add_http_publisher(backends);
  REQUIRE(backends.publishers.contains("http"));
  REQUIRE(backends.publishers.contains("https"));
  PublisherSettings settings = good_settings();
  settings.envelope = "unknown";
  CHECK(contains(describe(backends.publishers.at("https").check(settings)), "unknown"));
}

}  // namespace outbox
