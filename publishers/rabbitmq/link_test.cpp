#include "publishers/rabbitmq/link_test.h"

#include <fmt/format.h>

#include <utility>

#include "publishers/rabbitmq/amqp_link.h"
#include "publishers/rabbitmq/endpoint.h"

namespace outbox {

namespace {

Finding finding(const char* code, std::string what, Outcome outcome, std::string fix) {
  return {.severity = Severity::error,
          .code = code,
          .what = std::move(what),
          .why = fmt::format("For an event that would mean: {}.", meaning_of(outcome)),
          .fix = std::move(fix)};
}

void fail(BrokerTest& test, const char* step, const LinkError& error, const char* code,
          const std::string& fix, const std::string& label) {
  test.outcome = error.outcome;
  test.steps.push_back({step, false, error.reason});
  test.findings.push_back(
      finding(code, fmt::format("{}: {}.", label, error.reason), error.outcome, fix));
}

}  // namespace

BrokerTest test_rabbitmq_broker(const PublisherSettings& settings, const Clock& clock) {
  BrokerTest test;
  AmqpEndpoint endpoint = parse_amqp_endpoint(settings.url).endpoint;
  if (const std::string why = read_login(settings, endpoint); !why.empty()) {
    fail(test, "login", {Outcome::misconfigured, why}, "broker_credentials",
         "Mend what the reason says.", endpoint.label);
    return test;
  }
  const Time deadline = clock.now() + settings.publish_timeout;
  WriteGuard guard(clock);
  LinkError error;
  const auto link = AmqpLink::open(endpoint, settings.tls, deadline, clock, guard, error);
  if (!link) {
    const bool denied = error.outcome == Outcome::misconfigured;
    test.reached = denied;
    fail(test, "connect", error, denied ? "broker_denied" : "broker_unreachable",
         denied ? fmt::format("Give the user {} a password that fits passwordFile, and access to "
                              "the vhost {}: rabbitmqctl authenticate_user, set_permissions.",
                              endpoint.username, endpoint.vhost)
                : "Start the broker, or correct brokers.*.url; look for a firewall between.",
         endpoint.label);
    return test;
  }
  test.reached = true;
  test.steps.push_back(
      {"connect", true,
       fmt::format("{}, vhost {}, as {}", endpoint.label, endpoint.vhost, endpoint.username)});
  if (const auto missing = link->find_exchange(settings.exchange, deadline)) {
    fail(test, "exchange", *missing, "broker_path",
         fmt::format("Declare the exchange {}, or correct brokers.*.exchange.", settings.exchange),
         endpoint.label);
    return test;
  }
  test.steps.push_back(
      {"exchange", true,
       settings.exchange.empty() ? "the default exchange" : settings.exchange + " is there"});
  test.outcome = Outcome::confirmed;
  return test;
}

}  // namespace outbox
