#include "metrics/health.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

namespace outbox {
namespace {

Health healthy() {
  Health health;
  health.set_up = true;
  health.started = true;
  health.store_usable = true;
  health.loop_age = std::chrono::seconds{1};
  return health;
}

// All that must never cost a restart: the broker, the circuit, the database, a pause.
Health troubled() {
  Health health = healthy();
  health.store_usable = false;
  health.store_error = "database is read-only";
  health.paused = true;
  health.stopping = true;
  health.circuit = CircuitState::open;
  health.next_probe = std::chrono::seconds{12};
  health.held_destinations = {{"assets", "404 Not Found", FailureKind::misconfigured}};
  return health;
}

TEST_CASE("only a stalled loop is not alive") {
  CHECK(liveness_of(healthy()).ok);
  CHECK(liveness_of(troubled()).ok);
  CHECK(liveness_of(Health{}).ok);
  Health health = healthy();
  health.loop_age = health.stall_timeout;
  CHECK(liveness_of(health).ok);
  health.loop_age = health.stall_timeout + std::chrono::milliseconds{1};
  const ProbeAnswer answer = liveness_of(health);
  CHECK_FALSE(answer.ok);
  CHECK(answer.state == "stalled");
  CHECK(answer.reason.find("relay.stallTimeout") != std::string::npos);
}

TEST_CASE("a loop that never began stalls too") {
  Health health;
  health.loop_age = std::chrono::minutes{3};
  CHECK_FALSE(liveness_of(health).ok);
}

TEST_CASE("a loop that has ended in good order is not stalled") {
  Health health = healthy();
  health.loop_age = std::chrono::minutes{10};
  health.finished = true;
  CHECK(liveness_of(health).ok);
}

TEST_CASE("ready means a usable store and no shutdown") {
  CHECK(readiness_of(healthy()).ok);
  CHECK(readiness_of(healthy()).state == "ready");
  Health health = healthy();
  health.store_usable = false;
  health.store_error = "no such table: outbox_messages";
  CHECK_FALSE(readiness_of(health).ok);
  CHECK(readiness_of(health).state == "store_unusable");
  CHECK(readiness_of(health).reason == "no such table: outbox_messages");
  health = healthy();
  health.stopping = true;
  CHECK(readiness_of(health).state == "draining");
  CHECK_FALSE(readiness_of(health).ok);
  health = healthy();
  health.started = false;
  CHECK(readiness_of(health).state == "starting");
  CHECK_FALSE(readiness_of(health).ok);
  health = healthy();
  health.loop_age = std::chrono::minutes{3};
  CHECK(readiness_of(health).state == "stalled");
  CHECK_FALSE(readiness_of(health).ok);
}

TEST_CASE("broker, circuit and pause leave it ready") {
  Health health = troubled();
  health.store_usable = true;
  health.stopping = false;
  CHECK(readiness_of(health).ok);
}

TEST_CASE("started up is what has been set up, with or without a database") {
  CHECK_FALSE(startup_of(Health{}).ok);
  CHECK(startup_of(troubled()).ok);
}

TEST_CASE("the body explains itself") {
  const Health health = troubled();
  const auto body = nlohmann::json::parse(to_json(readiness_of(health), health));
  CHECK(body["state"] == "draining");
  CHECK(body["storeError"] == "database is read-only");
  CHECK(body["circuit"] == "open");
  CHECK(body["nextProbeSeconds"] == 12);
  CHECK(body["paused"] == true);
  CHECK(body["heldDestinationCount"] == 1);
  CHECK(body["heldDestinations"][0]["destination"] == "assets");
  CHECK(body["heldDestinations"][0]["reason"] == "404 Not Found");
  const auto calm = nlohmann::json::parse(to_json(readiness_of(healthy()), healthy()));
  CHECK(calm["nextProbeSeconds"].is_null());
  CHECK(calm["heldDestinations"].empty());
}

TEST_CASE("a thousand held destinations make no long body, and no byte breaks it") {
  Health health = troubled();
  health.store_error = "bad \xff byte \"quoted\"\n";
  health.held_destinations.resize(1000, {"d\xfe", "404", FailureKind::misconfigured});
  const std::string text = to_json(readiness_of(health), health);
  CHECK(text.size() < 8 * 1024);
  const auto body = nlohmann::json::parse(text);
  CHECK(body["heldDestinationCount"] == 1000);
  CHECK(body["heldDestinations"].size() == 20);
}

}  // namespace
}  // namespace outbox
