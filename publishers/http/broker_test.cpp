#include "publishers/http/broker_test.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

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
constexpr std::size_t kHeadMax = 32 * 1024;

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

std::string header_of(std::string_view head, std::string_view lower_name) {
  for (std::size_t at = head.find("\r\n"); at != std::string_view::npos;) {
    const std::size_t begin = at + 2;
    at = head.find("\r\n", begin);
    const std::string_view line = head.substr(begin, at - begin);
    const auto colon = line.find(':');
    if (colon == std::string_view::npos ||
        to_lower(std::string(line.substr(0, colon))) != lower_name)
      continue;
    std::string_view value = line.substr(colon + 1);
    while (value.starts_with(' ')) value.remove_prefix(1);
    return std::string(value);
  }
  return {};
}

// "HTTP/1.1 204 No Content" gives 204; nothing if it is no such line.
std::optional<int> status_of(std::string_view head) {
  const auto space = head.find(' ');
  if (!head.starts_with("HTTP/1.") || space == std::string_view::npos) return std::nullopt;
  const std::string_view digits = head.substr(space + 1, 3);
  int status = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), status);
  if (error != std::errc{} || end != digits.data() + 3) return std::nullopt;
  return status;
}

class BrokerWalk {
 public:
  BrokerWalk(const PublisherSettings& settings, const Clock& clock)
      : settings_(settings),
        clock_(clock),
        endpoint_(parse_endpoint(settings.url).endpoint),
        resolver_(endpoint_.host, endpoint_.port, settings.publish_timeout, clock),
        tls_(endpoint_.tls ? std::make_unique<TlsContext>(settings.tls, endpoint_.host) : nullptr),
        connection_(tls_.get(), resolver_, clock) {}

  BrokerTest walk() {
    if (resolve() && connect() && agree_on_tls()) ask();
    connection_.close();
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
    connection_.begin_attempt(deadline());
    const bool open = connection_.open();
    if (!endpoint_.tls && open) return true;
    if (!open) {
      step(endpoint_.tls ? "tls" : "connect", false, connection_.error());
      test_.findings.push_back(broker_finding(
          Severity::error, "broker_tls",
          fmt::format("No TLS with {}: {}.", endpoint_.label, connection_.error()),
          "The relay sends nothing to a broker that it can't be sure of; rows wait.",
          "Set tls.caFile to the authority that signed the broker's certificate, or tls.serverName "
          "to the name in it; an expired one has to be renewed."));
      return false;
    }
    judge_certificate();
    return true;
  }

  void judge_certificate() {
    const auto facts = connection_.tls_facts();
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

  // The head of the answer; empty if there is none.
  std::string exchange(const std::string& method, const std::vector<Header>& from_files) {
    if (!connection_.is_open() && !connection_.open()) return {};
    std::string request =
        fmt::format("{} {}{} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: 0\r\n",
                    method, endpoint_.path, endpoint_.query, endpoint_.authority);
    for (const auto& [name, value] : from_files) request += fmt::format("{}: {}\r\n", name, value);
    for (const auto& [name, value] : settings_.headers) {
      request += fmt::format("{}: {}\r\n", name, value);
    }
    request += "User-Agent: outbox-relay\r\n\r\n";
    std::string head;
    std::array<char, 4096> bytes{};
    if (!connection_.write(request.data(), request.size())) return {};
    while (head.find("\r\n\r\n") == std::string::npos && head.size() < kHeadMax) {
      const ssize_t count = connection_.read(bytes.data(), bytes.size());
      if (count <= 0) break;
      head.append(bytes.data(), static_cast<std::size_t>(count));
    }
    connection_.close();
    return head;
  }

  void ask() {
    Credentials credentials(settings_);
    if (const std::string error = credentials.refresh(false); !error.empty()) {
      step("answer", false, error);
      test_.outcome = Outcome::misconfigured;
      test_.findings.push_back(broker_finding(Severity::error, "broker_credentials", error + ".",
                                              "Nothing is sent without it; rows wait as Failed.",
                                              "Mend the file; it is read anew."));
      return;
    }
    std::string method = "OPTIONS";
    std::string head = exchange(method, credentials.headers());
    const std::optional<int> first = status_of(head);
    if (first == 405 || first == 501) {
      method = "HEAD";
      connection_.begin_attempt(deadline());
      head = exchange(method, credentials.headers());
    }
    const std::optional<int> status = status_of(head);
    if (!status) return no_answer(head);
    test_.reached = true;
    judge_answer(method, *status, head);
  }

  void no_answer(const std::string& head) {
    const std::string why = !connection_.error().empty() ? connection_.error()
                            : head.empty()               ? "the connection was closed"
                                                         : "the answer is not HTTP/1";
    step("answer", false, why);
    test_.findings.push_back(broker_finding(
        Severity::error, "broker_answer",
        fmt::format("{} gives no HTTP answer: {}.", endpoint_.label, why),
        "The relay counts that as a failure of the broker; its circuit opens, and rows wait.",
        "Check that the url's scheme and port are right, and that the broker is not overloaded."));
  }

  void judge_answer(const std::string& method, int status, std::string_view head) {
    const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
    const HttpAnswer answer{status, header_of(head, "retry-after"), header_of(head, "date")};
    const std::string what = fmt::format("HTTP {} to {}", status, method);
    // A receiver that takes POST only has said all that it can.
    if (status == 405 || status == 501) {
      test_.outcome.reset();
      step("answer", true, what + ": it answers, and will not say more without an event");
      return;
    }
    const Outcome outcome = judge(answer, now).outcome;
    const bool good = outcome == Outcome::confirmed || outcome == Outcome::refused;
    test_.outcome = good ? Outcome::confirmed : outcome;
    step("answer", good, what);
    if (!good) add_answer_finding(what, status, outcome);
  }

  void add_answer_finding(const std::string& what, int status, Outcome outcome) {
    const bool denied = status == 401 || status == 403 || status == 407;
    const bool lost = status == 404 || status == 410;
    const std::string fix =
        denied ? "Check username and passwordFile, or bearerTokenFile, and what they may do."
        : lost ? "Check the path of the broker's url. A receiver may also know it for POST only: "
                 "outbox-relay broker test --send tells."
        : status < 400 ? "Redirects are not followed: write the address that it names."
                       : "Look into the broker's own log.";
    test_.findings.push_back(broker_finding(
        lost ? Severity::warning : Severity::error,
        denied ? "broker_denied" : (lost ? "broker_path" : "broker_answer"),
        fmt::format("{} answers {}.", endpoint_.label, what),
        fmt::format("As an answer to an event it would mean: {}.", meaning_of(outcome)), fix));
  }

  const PublisherSettings& settings_;
  const Clock& clock_;
  const Endpoint endpoint_;
  Resolver resolver_;
  const std::unique_ptr<TlsContext> tls_;
  Connection connection_;
  BrokerTest test_;
};

}  // namespace

BrokerTest test_http_broker(const PublisherSettings& settings, const Clock& clock) {
  return BrokerWalk(settings, clock).walk();
}

}  // namespace outbox
