#include "publishers/rabbitmq/link_test.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "publishers/rabbitmq/amqp_link.h"
#include "publishers/rabbitmq/endpoint.h"

namespace outbox {

namespace {

struct Advice {
  const char* code = "broker_unreachable";
  std::string fix;
};

std::string shown_exchange(const PublisherSettings& settings) {
  return settings.exchange.empty() ? "amq.default" : settings.exchange;
}

// RabbitMQ says what is wrong only in words.
Advice advice_for(const std::string& reason, const PublisherSettings& settings,
                  const AmqpEndpoint& endpoint) {
  const auto says = [&](const char* part) { return reason.find(part) != std::string::npos; };
  if (says("TLS: ")) {
    return {"broker_tls",
            "Set tls.caFile to the authority that signed the broker's certificate, or "
            "tls.serverName to the name in it; renew an expired one. A broker that asks for a "
            "certificate needs tls.certFile and tls.keyFile; one without TLS needs amqp://."};
  }
  if (says("hostname lookup failed")) {
    return {"broker_name", "Correct the host in brokers.*.url, or look at the name server."};
  }
  if (says("NO_ROUTE")) {
    return {
        "broker_path",
        "Bind a queue for this routing key to the exchange, or name an exchange for such events "
        "in brokers.*.unroutableExchange."};
  }
  if (says("NOT_FOUND")) {
    return {"broker_path", fmt::format("Declare the exchange {}, or correct brokers.*.exchange.",
                                       settings.exchange)};
  }
  if (says(" limit (") || says(" limit of ") || says("channel_max")) {
    return {"broker_denied", "Raise the limit: the relay has one connection with two channels."};
  }
  if (says("Login was refused")) {
    return {"broker_denied",
            fmt::format("Give the user {} the password that is in passwordFile: rabbitmqctl "
                        "change_password, or correct the file.",
                        endpoint.username)};
  }
  if (says("vhost") || says("exchange")) {
    return {"broker_denied",
            fmt::format("See to it that the vhost is there, and that the user may write: "
                        "rabbitmqctl set_permissions -p '{}' '{}' '' '^{}$' ''.",
                        endpoint.vhost, endpoint.username, shown_exchange(settings))};
  }
  if (says("passwordFile")) return {"broker_credentials", "Mend the file; it is read anew."};
  return {"broker_unreachable",
          "Start the broker, or correct brokers.*.url; look for a firewall between."};
}

Finding finding(const Advice& advice, std::string_view reason, Outcome outcome,
                const AmqpEndpoint& endpoint) {
  if (reason.ends_with('.')) reason.remove_suffix(1);
  const bool named = reason.starts_with(endpoint.label);
  return {
      .severity = Severity::error,
      .code = advice.code,
      .what = named ? fmt::format("{}.", reason) : fmt::format("{}: {}.", endpoint.label, reason),
      .why = fmt::format("For an event that would mean: {}.", meaning_of(outcome)),
      .fix = advice.fix};
}

void fail(BrokerTest& test, const char* step, const LinkError& error,
          const PublisherSettings& settings, const AmqpEndpoint& endpoint) {
  test.outcome = error.outcome;
  test.steps.push_back({step, false, error.reason});
  test.findings.push_back(
      finding(advice_for(error.reason, settings, endpoint), error.reason, error.outcome, endpoint));
}

}  // namespace

BrokerTest test_rabbitmq_broker(const PublisherSettings& settings, const Clock& clock) {
  BrokerTest test;
  AmqpEndpoint endpoint = parse_amqp_endpoint(settings.url).endpoint;
  if (const std::string why = read_login(settings, endpoint); !why.empty()) {
    fail(test, "login", {Outcome::misconfigured, why}, settings, endpoint);
    return test;
  }
  const Time deadline = clock.now() + settings.publish_timeout;
  WriteGuard guard(clock);
  LinkError error;
  const auto link = AmqpLink::open(endpoint, settings.tls, deadline, clock, guard, error);
  if (!link) {
    test.reached = error.outcome == Outcome::misconfigured;
    fail(test, "connect", error, settings, endpoint);
    return test;
  }
  test.reached = true;
  test.steps.push_back(
      {"connect", true,
       fmt::format("{}, vhost {}, as {}", endpoint.label, endpoint.vhost, endpoint.username)});
  if (const auto missing = link->find_exchange(settings.exchange, deadline)) {
    fail(test, "exchange", *missing, settings, endpoint);
    return test;
  }
  test.steps.push_back(
      {"exchange", true,
       settings.exchange.empty() ? "the default exchange" : settings.exchange + " is there"});
  test.outcome = Outcome::confirmed;
  return test;
}

std::optional<Finding> explain_rabbitmq_receipt(const PublisherSettings& settings,
                                                const Receipt& receipt) {
  if (receipt.outcome != Outcome::misconfigured) return std::nullopt;
  AmqpEndpoint endpoint = parse_amqp_endpoint(settings.url).endpoint;
  if (!settings.username.empty()) endpoint.username = settings.username;
  return finding(advice_for(receipt.reason, settings, endpoint), receipt.reason, receipt.outcome,
                 endpoint);
}

}  // namespace outbox
