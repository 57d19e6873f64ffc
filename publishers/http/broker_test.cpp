#include "publishers/http/broker_test.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "publishers/http/client.h"
#include "publishers/http/connection.h"
#include "publishers/http/credentials.h"
#include "publishers/http/endpoint.h"
#include "publishers/http/judgement.h"
#include "publishers/http/resolver.h"
#include "publishers/http/tls.h"
#include "publishers/wire/text.h"

namespace outbox {
namespace {

constexpr auto kExpiresSoon = std::chrono::days{14};

Finding broker_finding(Severity severity, std::string code, std::string what, std::string why,
                       std::string fix, bool unreachable = false) {
  return {.severity = severity,
          .code = std::move(code),
          .what = std::move(what),
          .why = std::move(why),
          .fix_kind = FixKind::advice,
          .fix = std::move(fix),
          .unreachable = unreachable};
}

bool is_denial(int status) { return status == 401 || status == 403 || status == 407; }
bool is_wrong_path(int status) { return status == 404 || status == 410; }

std::string answer_advice(int status, bool sent) {
  if (is_denial(status)) {
    return "Check username and passwordFile, bearerTokenFile or headerFiles, and what they may do.";
  }
  if (is_wrong_path(status)) {
    const char* rest = sent ? ""
                            : " A receiver may also know it for POST only: outbox-relay broker "
                              "test --send tells.";
    return std::string("Check the path of the broker's url.") + rest;
  }
  return status < 400 ? "Redirects are not followed: write the address that it names."
                      : "Look into the broker's own log.";
}

Finding answer_finding(const Endpoint& endpoint, const std::string& method, int status,
                       Outcome outcome) {
  const bool sent = method == "POST";
  const bool lost = is_wrong_path(status);
  return broker_finding(
      lost && !sent ? Severity::warning : Severity::error,
      is_denial(status) ? "broker_denied" : (lost ? "broker_path" : "broker_answer"),
      fmt::format("{} answers HTTP {} to {}.", endpoint.label, status, method),
      fmt::format("{} it would mean: {}.", sent ? "For a real event" : "As an answer to an event",
                  meaning_of(outcome)),
      answer_advice(status, sent));
}

// `error` is the connection's own. Whose first bytes are no record of TLS does not speak it.
std::string tls_advice(const std::string& error) {
  const auto says = [&](const char* part) { return error.find(part) != std::string::npos; };
  if (says("wrong version number") || says("packet length too long")) {
    return "Nothing there speaks TLS: write http:// in the broker's url, or the port where it "
           "does.";
  }
  if (says("closed the connection") || says("eof") || says("reset")) {
    return "If it speaks plain HTTP there, write http:// in the broker's url, or the port with "
           "TLS; "
           "else look into its own log why it does not go on.";
  }
  return "Set tls.caFile to the authority that signed the broker's certificate, or tls.serverName "
         "to the name in it; an expired one has to be renewed.";
}

bool takes_post_only(int status) { return status == 405 || status == 501; }

class BrokerWalk {
 public:
  BrokerWalk(const PublisherSettings& settings, const Clock& clock)
      : settings_(settings),
        clock_(clock),
        endpoint_(parse_endpoint(settings.url).endpoint),
        resolver_(endpoint_.host, endpoint_.port, settings.publish_timeout, clock),
        tls_(endpoint_.tls ? std::make_unique<TlsContext>(settings.tls, endpoint_.host) : nullptr) {
  }

  BrokerTest walk() {
    if (!resolve() || !connect() || !agree_on_tls()) return std::move(test_);
    try {
      ask();
    } catch (const std::exception&) {
      no_answer("the exchange broke off inside the HTTP library");
    }
    return std::move(test_);
  }

 private:
  Time deadline() const { return clock_.now() + settings_.publish_timeout; }

  void step(const char* name, bool done, std::string what) {
    test_.steps.push_back({name, done, std::move(what)});
  }

  bool resolve() {
    const Resolution found = resolver_.resolve(deadline());
    if (!found.addresses.empty()) {
      const std::size_t count = found.addresses.size();
      step("resolve", true,
           fmt::format("{} has {} address{}", endpoint_.host, count, count == 1 ? "" : "es"));
      return true;
    }
    step("resolve", false, found.error);
    test_.findings.push_back(broker_finding(
        Severity::error, "broker_name",
        fmt::format("The broker's name {} does not resolve: {}.", endpoint_.host, found.error),
        "The relay can't connect; rows wait and are tried again.",
        "Correct the broker's url, or the name server of this host or Pod.", true));
    return false;
  }

  // Without TLS at first, so that one can be told from the other.
  bool connect() {
    Connection plain(nullptr, resolver_, clock_);
    const Time start = clock_.now();
    plain.begin_attempt(deadline());
    if (plain.open()) {
      const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(clock_.now() - start);
      step("connect", true, fmt::format("{} in {}", endpoint_.label, took));
      return true;
    }
    step("connect", false, plain.error());
    test_.findings.push_back(broker_finding(
        Severity::error, "broker_unreachable",
        fmt::format("The broker {} can't be reached: {}.", endpoint_.label, plain.error()),
        "The relay can't connect; its circuit opens, and rows wait.",
        "Check that the broker runs and listens there, and what firewalls and network policies "
        "say.",
        true));
    return false;
  }

  bool agree_on_tls() {
    if (!endpoint_.tls) return true;
    Connection connection(tls_.get(), resolver_, clock_);
    connection.begin_attempt(deadline());
    if (connection.open()) {
      judge_certificates(connection);
      connection.close();
      return true;
    }
    step("tls", false, connection.error());
    test_.findings.push_back(
        broker_finding(Severity::error, "broker_tls",
                       fmt::format("No TLS with {}: {}.", endpoint_.label, connection.error()),
                       "The relay sends nothing to a broker that it can't be sure of; rows wait.",
                       tls_advice(connection.error())));
    return false;
  }

  void judge_certificates(const Connection& connection) {
    const auto facts = connection.tls_facts();
    if (!facts) return step("tls", true, "agreed");
    step("tls", true,
         fmt::format("{}, certificates valid until {:%Y-%m-%d}", facts->version, facts->expires));
    const auto left =
        facts->expires - std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
    if (left > kExpiresSoon) return;
    test_.findings.push_back(broker_finding(
        Severity::warning, "broker_certificate",
        fmt::format("A certificate in the chain of {} expires in {} days, on {:%Y-%m-%d}.",
                    endpoint_.label, std::chrono::floor<std::chrono::days>(left).count(),
                    facts->expires),
        "From then on nothing is delivered.", "Renew it."));
  }

  HttpRequest question(const char* method) const {
    HttpRequest request;
    request.method = method;
    request.path = endpoint_.path + endpoint_.query;
    request.headers = {{"Host", endpoint_.authority}};
    bool named = false;
    for (const auto& [name, value] : settings_.headers) {
      request.headers.push_back({name, value});
      named = named || to_lower(name) == "user-agent";
    }
    if (!named) request.headers.push_back({"User-Agent", "outbox-relay"});
    return request;
  }

  void ask() {
    Credentials credentials(settings_);
    HttpClient client(endpoint_, settings_, credentials, tls_.get(), resolver_, clock_);
    const char* method = "OPTIONS";
    Exchange asked = client.exchange(question(method), deadline());
    if (!asked.attempted) return no_credentials(asked.error);
    if (takes_post_only(asked.answer.status)) {
      method = "HEAD";
      asked = client.exchange(question(method), deadline());
    }
    if (asked.answer.status == 0) return no_answer(asked.error);
    test_.reached = true;
    judge_answer(method, asked.answer);
  }

  void no_credentials(const std::string& error) {
    step("answer", false, error);
    test_.outcome = Outcome::misconfigured;
    test_.findings.push_back(broker_finding(Severity::error, "broker_credentials", error + ".",
                                            "Nothing is sent without it; rows wait as Failed.",
                                            "Mend the file; it is read anew."));
  }

  void no_answer(const std::string& why) {
    step("answer", false, why);
    test_.findings.push_back(broker_finding(
        Severity::error, "broker_answer",
        fmt::format("{} does not answer: {}.", endpoint_.label, why),
        "The relay counts that as a failure of the broker; its circuit opens, and rows wait.",
        "Check that the url's scheme and port are right, and that the broker is not overloaded."));
  }

  void judge_answer(const char* method, const HttpAnswer& answer) {
    const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
    const std::string what = fmt::format("HTTP {} to {}", answer.status, method);
    // A receiver that takes POST only has said all that it can.
    if (takes_post_only(answer.status)) {
      test_.outcome.reset();
      step("answer", true, what + ": it answers, and will not say more without an event");
      return;
    }
    const Outcome outcome = judge(answer, now).outcome;
    const bool good = outcome == Outcome::confirmed || outcome == Outcome::refused;
    test_.outcome = good ? Outcome::confirmed : outcome;
    step("answer", good, what);
    if (good) return;
    test_.findings.push_back(answer_finding(endpoint_, method, answer.status, outcome));
  }

  const PublisherSettings& settings_;
  const Clock& clock_;
  const Endpoint endpoint_;
  Resolver resolver_;
  const std::unique_ptr<TlsContext> tls_;
  BrokerTest test_;
};

}  // namespace

std::optional<Finding> explain_http_receipt(const PublisherSettings& settings,
                                            const Receipt& receipt) {
  if (!receipt.sent && receipt.outcome == Outcome::misconfigured) {
    return broker_finding(Severity::error, "broker_credentials", receipt.reason + ".",
                          "Nothing is sent without it; rows wait as Failed.",
                          "Mend the file; it is read anew.");
  }
  const bool redirect = receipt.status >= 300 && receipt.status < 400;
  if (!is_denial(receipt.status) && !is_wrong_path(receipt.status) && !redirect) {
    return std::nullopt;
  }
  return answer_finding(parse_endpoint(settings.url).endpoint, "POST", receipt.status,
                        receipt.outcome);
}

BrokerTest test_http_broker(const PublisherSettings& settings, const Clock& clock) {
  return BrokerWalk(settings, clock).walk();
}

}  // namespace outbox
