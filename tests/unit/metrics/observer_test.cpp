// Events, and the samples that must follow from them.
#include <doctest/doctest.h>

#include <functional>

#include "fixture.h"

namespace outbox {
namespace {

struct Expected {
  const char* what;
  std::function<void(RelayObserver&)> event;
  std::map<std::string, double> samples;
};

const Message kAsset = message_of("asset.created");

Delivery sent(Outcome outcome, bool will_retry = false) {
  return {.message = &kAsset,
          .destination = "assets",
          .outcome = outcome,
          .reason = "",
          .sent = true,
          .redelivered = false,
          .will_retry = will_retry,
          .took = std::chrono::milliseconds{20},
          .lag = std::chrono::seconds{2}};
}

Delivery unsent(Outcome outcome) {
  Delivery delivery = sent(outcome);
  delivery.sent = false;
  return delivery;
}

Delivery repeated() {
  Delivery delivery = sent(Outcome::confirmed);
  delivery.redelivered = true;
  return delivery;
}

TurnReport turn(TurnStatus status) {
  TurnReport report;
  report.status = status;
  report.took = std::chrono::milliseconds{3};
  report.held_after = 7;
  return report;
}

TurnReport eventful_turn() {
  TurnReport report = turn(TurnStatus::committed);
  report.fenced = 2;
  report.isolated = 3;
  report.taken_over = 4;
  return report;
}

std::function<void(RelayObserver&)> deliver(Delivery delivery) {
  return [delivery](RelayObserver& observer) { observer.on_delivery(delivery); };
}

std::function<void(RelayObserver&)> take(TurnReport report) {
  return [report](RelayObserver& observer) { observer.on_turn(report); };
}

std::function<void(RelayObserver&)> bury(DeadReason reason) {
  return [reason](RelayObserver& observer) {
    observer.on_burial({.id = "1",
                        .event_type = "asset.created",
                        .reason = reason,
                        .attempts = 6,
                        .error = "refused"});
  };
}

std::function<void(RelayObserver&)> hold(const std::string& destination, FailureKind kind) {
  return [=](RelayObserver& observer) { observer.on_destination({destination, "404", kind}); };
}

std::map<std::string, double> failure(const std::string& kind, double broker_up) {
  return {{"publish_failures_total{broker=\"main\",kind=\"" + kind + "\"}", 1},
          {"publish_attempts_total{broker=\"main\"}", 1},
          {"published_total{broker=\"main\",event_type=\"__other__\"}", 0},
          {"broker_up{broker=\"main\"}", broker_up}};
}

std::map<std::string, double> burial(const std::string& reason) {
  return {{"dead_lettered_total{broker=\"main\",reason=\"" + reason + "\"}", 1},
          {R"(broker_fault_total{broker="main",event_type="asset.created",source="publish"})", 1}};
}

const std::vector<Expected> kDeliveries{
    {"a confirmation counts as published, with its lag and duration",
     deliver(sent(Outcome::confirmed)),
     {{R"(published_total{broker="main",event_type="asset.created"})", 1},
      {R"(publish_attempts_total{broker="main"})", 1},
      {R"(delivery_lag_seconds_sum{broker="main"})", 2},
      {R"(delivery_lag_seconds_bucket{broker="main",le="1"})", 0},
      {R"(delivery_lag_seconds_bucket{broker="main",le="5"})", 1},
      {R"(publish_duration_seconds_sum{broker="main"})", 0.02},
      {R"(retries_total{broker="main"})", 0},
      {R"(redelivered_total{broker="main"})", 0}}},
    {"a possible duplicate is counted",
     deliver(repeated()),
     {{R"(redelivered_total{broker="main"})", 1}}},
    {"a retry is counted",
     deliver(sent(Outcome::transport, true)),
     {{R"(retries_total{broker="main"})", 1}}},
    {"a transport failure shows the broker as down", deliver(sent(Outcome::transport)),
     failure("transport", 0)},
    {"throttling is an answer", deliver(sent(Outcome::throttled)), failure("throttled", 1)},
    {"misconfigured is an answer", deliver(sent(Outcome::misconfigured)),
     failure("misconfigured", 1)},
    {"a refusal is an answer", deliver(sent(Outcome::refused)), failure("refused", 1)},
    {"a conflict is an answer", deliver(sent(Outcome::conflict)), failure("conflict", 1)},
    {"a connection refused is a failure but no attempt on the wire",
     deliver(unsent(Outcome::transport)),
     {{R"(publish_failures_total{broker="main",kind="transport"})", 1},
      {R"(publish_attempts_total{broker="main"})", 0},
      {R"(publish_duration_seconds_count{broker="main"})", 0}}},
    {"a cancelled publish counts nowhere",
     deliver(unsent(Outcome::cancelled)),
     {{R"(publish_attempts_total{broker="main"})", 0}, {R"(broker_up{broker="main"})", 1}}},
};

const std::vector<Expected> kTurns{
    {"a committed turn shows the store as up and the relay as active",
     take(turn(TurnStatus::committed)),
     {{"store_up", 1},
      {"active", 1},
      {"leases_held", 7},
      {"last_poll_success_timestamp_seconds", 1.8e9},
      {R"(store_operation_duration_seconds_count{operation="turn"})", 1},
      {R"(store_operation_duration_seconds_bucket{operation="turn",le="0.0025"})", 0},
      {R"(store_operation_duration_seconds_bucket{operation="turn",le="0.005"})", 1},
      {R"(store_faults_total{operation="turn"})", 0}}},
    {"a failed turn shows the store as down",
     take(turn(TurnStatus::failed)),
     {{"store_up", 0},
      {"last_poll_success_timestamp_seconds", 0},
      {R"(store_faults_total{operation="turn"})", 1}}},
    {"an unusable store stops the relay",
     take(turn(TurnStatus::unusable)),
     {{"store_up", 0}, {"active", 0}, {R"(store_faults_total{operation="turn"})", 1}}},
    {"a busy database is no fault",
     take(turn(TurnStatus::busy)),
     {{"store_up", 1}, {"sqlite_busy_total", 1}, {R"(store_faults_total{operation="turn"})", 0}}},
    {"fenced settlements, rows that can't be written and ended leases are counted",
     take(eventful_turn()),
     {{"settlements_fenced_total", 2},
      {R"(store_faults_total{operation="settle"})", 3},
      {"lease_expired_total", 4}}},
};

const std::vector<Expected> kTheRest{
    {"attempts_exhausted", bury(DeadReason::attempts_exhausted), burial("attempts_exhausted")},
    {"permanent", bury(DeadReason::permanent), burial("permanent")},
    {"oversized", bury(DeadReason::oversized), burial("oversized")},
    {"invalid_row", bury(DeadReason::invalid_row), burial("invalid_row")},
    {"misconfigured", bury(DeadReason::misconfigured), burial("misconfigured")},
    {"crashed", bury(DeadReason::crashed), burial("crashed")},
    {"messages that an open circuit turned away are counted by type",
     [](RelayObserver& observer) {
       observer.on_short_circuit(
           {.counts = {{"asset.created", 3}, {"asset.moved", 4}}, .total = 7});
     },
     {{R"(broker_circuit_open_total{broker="main",event_type="asset.created"})", 3},
      {R"(broker_circuit_open_total{broker="main",event_type="asset.moved"})", 4},
      {R"(broker_circuit_open_total{broker="main",event_type="__other__"})", 0}}},
    {"a destination held for its errors",
     hold("a", FailureKind::misconfigured),
     {{R"(destinations_held{broker="main",reason="misconfigured"})", 1}}},
    {"a destination held for its refusals",
     hold("a", FailureKind::refused),
     {{R"(destinations_held{broker="main",reason="refused"})", 1}}},
    {"the limit on what travels",
     [](RelayObserver& observer) { observer.on_in_flight_limit(17); },
     {{R"(broker_in_flight_limit{broker="main"})", 17}}},
};

void check(MetricsFixture& fixture, const std::vector<Expected>& table) {
  for (const Expected& row : table) {
    Metrics metrics(fixture.options, fixture.clock);
    row.event(metrics.observer());
    const Scrape scrape(metrics.exposition());
    for (const auto& [key, value] : row.samples) {
      CAPTURE(row.what);
      CAPTURE(key);
      CHECK(scrape[key] == doctest::Approx(value));
    }
  }
}

TEST_CASE_FIXTURE(MetricsFixture, "each outcome of a publish moves its own series") {
  check(*this, kDeliveries);
}

TEST_CASE_FIXTURE(MetricsFixture, "each outcome of a turn moves its own series") {
  check(*this, kTurns);
}

TEST_CASE_FIXTURE(MetricsFixture,
                  "burials, short circuits, holds and limits move their own series") {
  check(*this, kTheRest);
}

TEST_CASE_FIXTURE(MetricsFixture, "a destination that is free again is no longer held") {
  Metrics metrics(options, clock);
  RelayObserver& observer = metrics.observer();
  observer.on_destination({"a", "404", FailureKind::misconfigured});
  observer.on_destination({"b", "404", FailureKind::misconfigured});
  observer.on_destination({"a", "413", FailureKind::refused});  // another reason, still one hold
  observer.on_destination({"b", "", FailureKind::none});
  const Scrape scrape(metrics.exposition());
  CHECK(scrape[R"(destinations_held{broker="main",reason="misconfigured"})"] == 0);
  CHECK(scrape[R"(destinations_held{broker="main",reason="refused"})"] == 1);
}

TEST_CASE_FIXTURE(MetricsFixture, "the circuit is in one state, and its changes are counted") {
  Metrics metrics(options, clock);
  CHECK(Scrape(metrics.exposition())[R"(broker_circuit_state{broker="main",state="closed"})"] == 1);
  const std::vector<std::pair<CircuitState, std::string>> states{
      {CircuitState::open, "open"},
      {CircuitState::half_open, "half_open"},
      {CircuitState::isolated, "isolated"},
      {CircuitState::closed, "closed"}};
  for (const auto& [state, name] : states) {
    metrics.observer().on_circuit({.from = CircuitState::closed, .to = state, .reason = ""});
    const Scrape scrape(metrics.exposition());
    for (const auto& [other, other_name] : states) {
      CAPTURE(other_name);
      CHECK(scrape["broker_circuit_state{broker=\"main\",state=\"" + other_name + "\"}"] ==
            (other == state ? 1 : 0));
    }
    CHECK(scrape["broker_circuit_transitions_total{broker=\"main\",to=\"" + name + "\"}"] == 1);
  }
}

TEST_CASE_FIXTURE(MetricsFixture, "time counts as open while the circuit is open, and only then") {
  constexpr const char* kOpen = R"(broker_circuit_open_seconds_total{broker="main"})";
  Metrics metrics(options, clock);
  RelayObserver& observer = metrics.observer();
  advance(std::chrono::seconds{100});
  CHECK(Scrape(metrics.exposition())[kOpen] == 0);
  observer.on_circuit({.from = CircuitState::closed, .to = CircuitState::open, .reason = "reset"});
  advance(std::chrono::seconds{5});
  CHECK(Scrape(metrics.exposition())[kOpen] == doctest::Approx(5));
  advance(std::chrono::seconds{5});
  CHECK(Scrape(metrics.exposition())[kOpen] == doctest::Approx(10));
  advance(std::chrono::seconds{2});
  observer.on_circuit({.from = CircuitState::open, .to = CircuitState::half_open, .reason = ""});
  advance(std::chrono::seconds{60});
  CHECK(Scrape(metrics.exposition())[kOpen] == doctest::Approx(12));
}

TEST_CASE_FIXTURE(MetricsFixture, "the next probe's time is right though the wall clock jumps") {
  constexpr const char* kNext = R"(broker_circuit_next_probe_timestamp_seconds{broker="main"})";
  Metrics metrics(options, clock);
  CHECK(Scrape(metrics.exposition())[kNext] == 0);
  metrics.observer().on_circuit({.from = CircuitState::closed,
                                 .to = CircuitState::open,
                                 .reason = "",
                                 .next_probe = std::chrono::seconds{15}});
  advance(std::chrono::seconds{5});
  CHECK(Scrape(metrics.exposition())[kNext] == doctest::Approx(1'800'000'015.0).epsilon(1e-12));
  wall += std::chrono::hours{1};
  CHECK(Scrape(metrics.exposition())[kNext] == doctest::Approx(1'800'003'615.0).epsilon(1e-12));
  metrics.observer().on_circuit(
      {.from = CircuitState::open, .to = CircuitState::half_open, .reason = ""});
  CHECK(Scrape(metrics.exposition())[kNext] == 0);
}

TEST_CASE_FIXTURE(MetricsFixture, "the broker is up again with its first answer") {
  Metrics metrics(options, clock);
  metrics.observer().on_delivery(sent(Outcome::transport));
  CHECK(Scrape(metrics.exposition())[R"(broker_up{broker="main"})"] == 0);
  metrics.observer().on_delivery(sent(Outcome::refused));
  CHECK(Scrape(metrics.exposition())[R"(broker_up{broker="main"})"] == 1);
}

TEST_CASE_FIXTURE(MetricsFixture, "a relay that is stopping is not active, though its turns work") {
  Metrics metrics(options, clock);
  CHECK(Scrape(metrics.exposition())["active"] == 0);
  metrics.observer().on_turn(turn(TurnStatus::committed));
  CHECK(Scrape(metrics.exposition())["active"] == 1);
  metrics.on_stopping();
  metrics.observer().on_turn(turn(TurnStatus::committed));
  CHECK(Scrape(metrics.exposition())["active"] == 0);
}

}  // namespace
}  // namespace outbox
