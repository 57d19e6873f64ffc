// What the relay does, as lines of the log.
#include "relay/app/log_observer.h"

#include <doctest/doctest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

namespace outbox {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;

class HandClock final : public Clock {
 public:
  Time now() const override { return now_; }
  void pass(Duration duration) { now_ += duration; }

 private:
  Time now_{seconds{1'000}};
};

struct ObserverFixture {
  HandClock clock;
  std::vector<json> lines;
  Log log{{}, "pod-1", [this](std::string_view line) { lines.push_back(json::parse(line)); }};
  LogObserver observer{log, clock, "main"};

  // The lines since the last call.
  std::vector<json> take() { return std::exchange(lines, {}); }

  void fail(Outcome outcome, std::string_view reason) {
    Message message;
    message.id = "id-1";
    message.event_type = "asset.created";
    message.payload = "4111-1111";
    observer.on_delivery({.message = &message,
                          .destination = "inbox",
                          .outcome = outcome,
                          .reason = reason,
                          .sent = true,
                          .will_retry = true});
  }
  void bury(std::string_view id) {
    observer.on_burial({id, "asset.created", DeadReason::permanent, 1, "HTTP 422"});
  }
  void turn(TurnStatus status, std::string_view error = "") {
    TurnReport report;
    report.status = status;
    report.error = error;
    observer.on_turn(report);
  }
};

struct EventCase {
  const char* name;
  std::function<void(RelayObserver&)> tell;
  json expected;  // what the only line has, among other things; null: no line
};

// Each event of its own, on a fresh observer.
TEST_CASE("each event has the line that it deserves") {
  const Message message;
  const std::vector<EventCase> cases = {
      {"a confirmed message has none",
       [&](RelayObserver& o) {
         o.on_delivery(
             {.message = &message, .destination = "", .outcome = Outcome::confirmed, .reason = ""});
       },
       nullptr},
      {"a message given back unsent has none",
       [&](RelayObserver& o) {
         o.on_delivery(
             {.message = &message, .destination = "", .outcome = Outcome::cancelled, .reason = ""});
       },
       nullptr},
      {"a failed attempt",
       [&](RelayObserver& o) {
         o.on_delivery({.message = &message,
                        .destination = "inbox",
                        .outcome = Outcome::transport,
                        .reason = "connection refused",
                        .will_retry = true});
       },
       {{"level", "warn"},
        {"kind", "transport"},
        {"reason", "connection refused"},
        {"destination", "inbox"},
        {"will_retry", true},
        {"suppressed", 0}}},
      {"a failed attempt at where the broker's URL itself leads",
       [&](RelayObserver& o) {
         o.on_delivery({.message = &message,
                        .destination = "",
                        .outcome = Outcome::transport,
                        .reason = "connection refused"});
       },
       {{"destination", "(broker's own)"}}},
      {"the circuit opens",
       [](RelayObserver& o) {
         o.on_circuit(
             {CircuitState::closed, CircuitState::open, "5 failures in a row", seconds{15}});
       },
       {{"level", "warn"},
        {"from", "closed"},
        {"to", "open"},
        {"reason", "5 failures in a row"},
        {"next_probe_seconds", 15.0}}},
      {"the circuit half-opens",
       [](RelayObserver& o) {
         o.on_circuit({CircuitState::open, CircuitState::half_open, "", Duration::zero()});
       },
       {{"level", "info"}, {"from", "open"}, {"to", "half_open"}}},
      {"the circuit closes",
       [](RelayObserver& o) {
         o.on_circuit({CircuitState::half_open, CircuitState::closed, "", Duration::zero()});
       },
       {{"level", "info"}, {"from", "half_open"}, {"to", "closed"}}},
      {"the circuit is isolated",
       [](RelayObserver& o) {
         o.on_circuit({CircuitState::closed, CircuitState::isolated, "", Duration::zero()});
       },
       {{"level", "warn"}, {"to", "isolated"}}},
      {"a batch is short-circuited",
       [](RelayObserver& o) {
         o.on_short_circuit({{{"a", 2}, {"b", 1}}, 3});
       },
       {{"level", "warn"}, {"messages", 3}, {"event_types", "a: 2, b: 1"}}},
      {"a dead letter",
       [](RelayObserver& o) {
         o.on_burial({"id-1", "asset.created", DeadReason::attempts_exhausted, 9, "HTTP 500"});
       },
       {{"level", "error"},
        {"id", "id-1"},
        {"event_type", "asset.created"},
        {"reason", "attempts_exhausted"},
        {"attempts", 9}}},
      {"a destination is held",
       [](RelayObserver& o) {
         o.on_destination({"inbox", "HTTP 403", FailureKind::misconfigured});
       },
       {{"level", "warn"},
        {"destination", "inbox"},
        {"reason", "HTTP 403"},
        {"kind", "misconfigured"}}},
      {"a destination is held no longer",
       [](RelayObserver& o) {
         o.on_destination({"inbox", "", FailureKind::none});
       },
       {{"level", "info"}, {"msg", "destination no longer held"}}},
  };
  for (const auto& event : cases) {
    CAPTURE(event.name);
    ObserverFixture fixture;
    event.tell(fixture.observer);
    const auto lines = fixture.take();
    CHECK(lines.size() == (event.expected.is_null() ? 0 : 1));
    if (event.expected.is_null() || lines.empty()) continue;
    for (const auto& [name, value] : event.expected.items()) {
      CAPTURE(name);
      CHECK(lines[0][name] == value);
    }
  }
}

TEST_CASE_FIXTURE(ObserverFixture, "a thousand confirmed messages make no line, and are counted") {
  for (int index = 0; index < 1'000; ++index) fail(Outcome::confirmed, "");
  CHECK(lines.empty());
  CHECK(observer.counts().published == 1'000);
}

TEST_CASE_FIXTURE(ObserverFixture, "one line per kind of failure in ten seconds, with a count") {
  for (int index = 0; index < 100; ++index) {
    fail(Outcome::transport, "connect to 10.0.0.1:" + std::to_string(40'000 + index) + " refused");
  }
  fail(Outcome::throttled, "HTTP 429");
  CHECK(take().size() == 2);
  clock.pass(seconds{9});
  fail(Outcome::transport, "connect to 10.0.0.1:50000 refused");
  CHECK(take().empty());
  clock.pass(seconds{1});
  fail(Outcome::transport, "connect to 10.0.0.1:50001 refused");
  auto said = take();
  REQUIRE(said.size() == 1);
  CHECK(said[0]["suppressed"] == 100);
  CHECK(observer.counts().failed_attempts == 103);
}

TEST_CASE_FIXTURE(ObserverFixture, "what was left out is told when nothing more comes") {
  for (int index = 0; index < 5; ++index) fail(Outcome::transport, "time-out");
  take();
  turn(TurnStatus::committed);
  take();
  clock.pass(seconds{10});
  turn(TurnStatus::committed);
  const auto said = take();
  REQUIRE(said.size() == 1);
  CHECK(said[0]["msg"] == "more of the same");
  CHECK(said[0]["suppressed"] == 4);
  CHECK(said[0]["like"] == "transport: time-out");
  turn(TurnStatus::committed);
  CHECK(take().empty());
}

TEST_CASE_FIXTURE(ObserverFixture, "a failure's line has neither the payload nor the id") {
  fail(Outcome::refused, "HTTP 422");
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].dump().find("4111-1111") == std::string::npos);
  CHECK(lines[0].dump().find("id-1") == std::string::npos);
}

TEST_CASE_FIXTURE(ObserverFixture, "endless new reasons don't make endless lines or memory") {
  for (int index = 0; index < 10'000; ++index) {
    std::string reason = "strange ";
    for (int rest = index; rest > 0; rest /= 26) reason += static_cast<char>('a' + rest % 26);
    fail(Outcome::transport, reason);
  }
  CHECK(lines.size() <= FingerprintLimit::kMost + 1);
}

TEST_CASE_FIXTURE(ObserverFixture,
                  "ten dead letters in ten seconds have a line, the rest a count") {
  for (int index = 0; index < 25; ++index) bury("id-" + std::to_string(index));
  CHECK(take().size() == 10);
  clock.pass(seconds{10});
  bury("id-last");
  const auto said = take();
  REQUIRE(said.size() == 1);
  CHECK(said[0]["suppressed"] == 15);
  CHECK(observer.counts().dead_lettered == 26);
  for (int index = 0; index < 12; ++index) bury("again");
  take();
  observer.flush();
  const auto rest = take();
  REQUIRE(rest.size() == 1);
  CHECK(rest[0]["suppressed"] == 3);
}

TEST_CASE_FIXTURE(ObserverFixture, "the store has one line per change, and busy is none") {
  turn(TurnStatus::busy);
  CHECK(take().empty());
  turn(TurnStatus::unusable, "no file /data/app.db");
  turn(TurnStatus::unusable, "no file /data/app.db");
  auto said = take();
  REQUIRE(said.size() == 1);
  CHECK(said[0]["level"] == "error");
  CHECK(said[0]["error"] == "no file /data/app.db");
  turn(TurnStatus::unusable, "no table outbox_messages");
  CHECK(take().size() == 1);  // another reason
  turn(TurnStatus::committed);
  turn(TurnStatus::committed);
  turn(TurnStatus::busy);
  turn(TurnStatus::committed);
  said = take();
  REQUIRE(said.size() == 1);
  CHECK(said[0]["msg"] == "store usable again");
  turn(TurnStatus::failed, "disk full");
  said = take();
  REQUIRE(said.size() == 1);
  CHECK(said[0]["level"] == "warn");
}

TEST_CASE_FIXTURE(ObserverFixture, "a store that others keep busy for long has a line") {
  turn(TurnStatus::committed);
  for (int second = 0; second < 10; ++second) {
    turn(TurnStatus::busy, "canceling statement due to lock timeout");
    clock.pass(seconds{1});
  }
  CHECK(take().size() == 1);  // that it was usable
  turn(TurnStatus::busy, "canceling statement due to lock timeout");
  turn(TurnStatus::busy, "canceling statement due to lock timeout");
  auto said = take();
  REQUIRE(said.size() == 1);
  CHECK(said[0]["level"] == "warn");
  CHECK(said[0]["error"] == "canceling statement due to lock timeout");
  turn(TurnStatus::committed);
  CHECK(take().size() == 1);
  clock.pass(seconds{20});
  turn(TurnStatus::busy);
  CHECK(take().empty());
}

TEST_CASE_FIXTURE(ObserverFixture, "isolated, fenced and taken-over rows are told") {
  turn(TurnStatus::committed);
  take();
  TurnReport report;
  report.status = TurnStatus::committed;
  report.isolated = 2;
  report.isolated_error = "CHECK constraint failed";
  report.fenced = 3;
  report.taken_over = 4;
  observer.on_turn(report);
  const auto said = take();
  REQUIRE(said.size() == 3);
  CHECK(said[0]["rows"] == 2);
  CHECK(said[0]["error"] == "CHECK constraint failed");
  CHECK(said[1]["settlements"] == 3);
  CHECK(said[2]["leases"] == 4);
}

TEST_CASE_FIXTURE(ObserverFixture,
                  "a probe tells the backlog, when that was sampled, and the next probe") {
  observer.on_probe();
  REQUIRE(lines.size() == 1);
  CHECK_FALSE(lines[0].contains("backlog"));
  take();
  Backlog backlog;
  backlog.pending = 7;
  backlog.failed = 2;
  backlog.leased = 1;
  backlog.oldest_age = seconds{60};
  observer.set_backlog(backlog, clock.now());
  observer.on_circuit({CircuitState::closed, CircuitState::open, "refused", milliseconds{14'500}});
  take();
  clock.pass(seconds{5});
  observer.on_probe();
  const auto said = take();
  REQUIRE(said.size() == 1);
  CHECK(said[0]["backlog"] == 10);
  CHECK(said[0]["oldest_age_seconds"] == 60.0);
  CHECK(said[0]["backlog_sampled_seconds_ago"] == 5.0);
  CHECK(said[0]["next_probe_seconds"] == 14.5);
  CHECK(said[0]["msg"].get<std::string>().find("probe") != std::string::npos);
}

TEST_CASE("fingerprints keep words and status codes and drop what varies") {
  CHECK(fingerprint_of("HTTP 503 from host-1234:8080") == "HTTP 503 from #:#");
  CHECK(fingerprint_of("id 3f2a9c1e-77") == fingerprint_of("id 9b01ff22-13"));
  CHECK(fingerprint_of("HTTP 500") != fingerprint_of("HTTP 503"));
  CHECK(fingerprint_of("") == "");
}

}  // namespace
}  // namespace outbox
