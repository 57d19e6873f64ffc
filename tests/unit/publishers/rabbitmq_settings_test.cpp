#include <doctest/doctest.h>

#include "publishers/rabbitmq/endpoint.h"
#include "tests/temporary_file.h"

namespace outbox {

namespace {

PublisherSettings settings_with(const std::string& url) {
  PublisherSettings settings;
  settings.url = url;
  settings.source = "/outbox-relay/outbox_messages";
  return settings;
}

std::string defects_of(const PublisherSettings& settings) {
  return describe(check_rabbitmq_settings(settings));
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("an AMQP URL is taken apart") {
  const auto parsed = parse_amqp_endpoint("amqps://o%64d%3auser%40x@rabbit:1234/v%2fh%c3%a9%20%3f");
  CHECK(parsed.error == "");
  CHECK(parsed.endpoint.tls);
  CHECK(parsed.endpoint.username == "odd:user@x");
  CHECK(parsed.endpoint.host == "rabbit");
  CHECK(parsed.endpoint.port == 1234);
  CHECK(parsed.endpoint.vhost == "v/h\xc3\xa9 ?");
  CHECK(parsed.endpoint.label == "rabbit:1234");
}

TEST_CASE("what an AMQP URL leaves out has its usual value") {
  for (const char* url : {"amqp://rabbit", "amqp://rabbit/", "AMQP://rabbit:5672/%2F"}) {
    CAPTURE(url);
    const auto parsed = parse_amqp_endpoint(url);
    CHECK(parsed.error == "");
    CHECK_FALSE(parsed.endpoint.tls);
    CHECK(parsed.endpoint.host == "rabbit");
    CHECK(parsed.endpoint.port == 5672);
    CHECK(parsed.endpoint.vhost == "/");
    CHECK(parsed.endpoint.username == "guest");
    CHECK(parsed.endpoint.password == "guest");
  }
  const auto address = parse_amqp_endpoint("amqps://[::1]/orders");
  CHECK(address.endpoint.host == "::1");
  CHECK(address.endpoint.port == 5671);
  CHECK(address.endpoint.label == "[::1]:5671");
}

TEST_CASE("what is no AMQP URL is refused with its reason") {
  const std::pair<const char*, const char*> cases[] = {
      {"amqp://", "names no host"},       {"amqp:///vhost", "names no host"},
      {"amqp://@rabbit", "user"},         {"amqp://rabbit:0", "port"},
      {"amqp://rabbit:70000", "port"},    {"amqp://rabbit:", "port"},
      {"amqp://rabbit:12x", "port"},      {"amqp://[::1", "bracket"},
      {"amqp://[::1]x", "bracket"},       {"amqp://rabbit/a/b", "%2f"},
      {"amqp://rabbit//", "%2f"},         {"amqp://rabbit/?heartbeat=30", "query"},
      {"amqp://rabbit/%2f%00x", "vhost"}, {"amqp://rabbit/%ff", "vhost"},
      {"amqp://rabbit/%4", "vhost"},      {"amqp://rabbit/% 4", "vhost"},
      {"amqp://u%0@rabbit", "user"},
  };
  for (const auto& [url, why] : cases) {
    CAPTURE(url);
    CHECK(contains(parse_amqp_endpoint(url).error, why));
    CHECK(contains(defects_of(settings_with(url)), why));
  }
  CHECK(contains(parse_amqp_endpoint("amqp://r/" + std::string(256, 'v')).error, "255"));
}

TEST_CASE("a user and a password file belong together, wherever the user stands") {
  const TemporaryFile password("secret\n");
  PublisherSettings settings = settings_with("amqp://relay@rabbit");
  CHECK(contains(defects_of(settings), "a file with the password of the user relay"));
  settings.password_file = password.path();
  CHECK(defects_of(settings) == "");
  AmqpEndpoint endpoint = parse_amqp_endpoint(settings.url).endpoint;
  CHECK(read_login(settings, endpoint) == "");
  CHECK(endpoint.username == "relay");
  CHECK(endpoint.password == "secret");
  settings.username = "other";
  CHECK(contains(defects_of(settings), "names the user relay as well"));
  CHECK(defects_of(settings_with("amqp://guest@rabbit")) == "");  // has a password that all know
  settings = settings_with("amqp://rabbit");
  settings.username = "relay";
  CHECK(contains(defects_of(settings), "a file with the password of the user relay"));
  settings.password_file = password.path();
  CHECK(defects_of(settings) == "");
  settings.username.clear();
  CHECK(contains(defects_of(settings), "somebody whose password it is"));
}

}  // namespace outbox
