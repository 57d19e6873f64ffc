#include "relay/destinations.h"

#include <doctest/doctest.h>

namespace outbox {
namespace {

using namespace std::chrono_literals;

constexpr Time kStart{1h};

void refuse(Destinations& destinations, const std::string& name, int times) {
  for (int i = 0; i < times; ++i) {
    destinations.on_refusal(name, FailureKind::misconfigured, "HTTP 403", kStart);
  }
}

TEST_CASE("a destination is held when most of its last 20 answers were refusals, not before") {
  Destinations destinations({});
  refuse(destinations, "a", 10);
  CHECK_FALSE(destinations.is_held("a"));
  refuse(destinations, "a", 1);
  CHECK(destinations.is_held("a"));
  CHECK_FALSE(destinations.is_held("b"));
  const auto changes = destinations.take_changes();
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].reason == "HTTP 403");
}

TEST_CASE("refusals older than the last 20 answers are forgotten") {
  Destinations destinations({});
  refuse(destinations, "a", 10);
  for (int i = 0; i < 10; ++i) destinations.on_confirmed("a", kStart);
  refuse(destinations, "a", 10);
  CHECK_FALSE(destinations.is_held("a"));
  refuse(destinations, "a", 1);
  CHECK(destinations.is_held("a"));
}

TEST_CASE("one row a minute probes a held destination, and an acceptance lifts it") {
  Destinations destinations({});
  refuse(destinations, "a", 11);
  CHECK(destinations.gate("a", kStart + 59s) == Gate::held);
  CHECK(destinations.gate("a", kStart + 60s) == Gate::probe);
  CHECK(destinations.gate("a", kStart + 60s) == Gate::held);
  CHECK(destinations.gate("a", kStart + 120s) == Gate::probe);
  destinations.take_changes();
  destinations.on_confirmed("a", kStart + 121s);
  CHECK(destinations.gate("a", kStart + 121s) == Gate::open);
  const auto changes = destinations.take_changes();
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].reason.empty());
}

TEST_CASE("a few held rows come back for the probe, the others later") {
  Destinations destinations({});
  Random random(1);
  refuse(destinations, "a", 11);
  for (int i = 0; i < 20; ++i) {
    CHECK(destinations.delay_when_held("a", kStart + 10s, random) == 50s);
  }
  const Duration later = destinations.delay_when_held("a", kStart + 10s, random);
  CHECK(later >= 270s);
  CHECK(later <= 300s);
}

TEST_CASE("all_held is about the destinations that were heard of") {
  Destinations destinations({});
  CHECK_FALSE(destinations.all_held());
  refuse(destinations, "a", 11);
  CHECK(destinations.all_held());
  destinations.gate("b", kStart);
  CHECK_FALSE(destinations.all_held());
}

TEST_CASE("the number of remembered destinations is bounded") {
  DestinationOptions options;
  options.remembered_max = 3;
  Destinations destinations(options);
  refuse(destinations, "a", 11);
  for (const char* name : {"b", "c", "d"}) destinations.gate(name, kStart);
  CHECK_FALSE(destinations.is_held("a"));
  CHECK_FALSE(destinations.all_held());
  CHECK(destinations.held().empty());
}

TEST_CASE("with holds switched off nothing is held") {
  DestinationOptions options;
  options.hold = false;
  Destinations destinations(options);
  refuse(destinations, "a", 100);
  CHECK(destinations.gate("a", kStart) == Gate::open);
}

}  // namespace
}  // namespace outbox
