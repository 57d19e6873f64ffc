// Clocks that jump, and times as applications write them.
#include <doctest/doctest.h>

#include "tests/conformance/sqlite_fixture.h"

namespace outbox::conformance {
namespace {

using namespace std::chrono_literals;
using Ids = std::vector<std::string>;

TEST_CASE("a wall clock that jumps ends no lease") {
  SqliteFixture fixture;
  fixture.insert({.id = "a"});
  Client relay(fixture);
  Client other(fixture);
  const Turn turn = committed(relay.turn());
  for (const auto jump : {+48h, -96h, +48h}) {
    fixture.shift_wall(jump);
    fixture.advance(1s);
    CHECK(committed(other.turn()).leased.empty());
  }
  CHECK(committed(relay.settle({delivered(turn.leased.at(0))})).fenced == 0);
}

TEST_CASE("a retry whose due time was set by a clock since put back is due") {
  SqliteFixture fixture;
  fixture.insert({.id = "retry"});
  fixture.insert({.id = "ordered", .not_before = 24h * 365});
  fixture.insert({.id = "long"});
  Client relay(fixture);
  const Turn turn = committed(relay.turn());
  fixture.shift_wall(2h);
  committed(relay.settle({retry(turn.leased.at(0), 5s)}));
  fixture.shift_wall(-2h);
  committed(relay.settle({retry(turn.leased.at(1), 72h)}));
  fixture.advance(2s);
  CHECK(ids_of(committed(relay.turn())) == Ids{"retry"});
  fixture.advance(2s);
  CHECK(committed(relay.turn()).leased.empty());
}

TEST_CASE("a clock that jumps forward measures no age between attempts") {
  SqliteFixture fixture;
  fixture.insert({.id = "a"});
  Client relay(fixture);
  committed(relay.settle({held(committed(relay.turn()).leased.at(0), 5s)}));
  fixture.shift_wall(48h);
  fixture.advance(10s);
  const Turn turn = committed(relay.turn());
  REQUIRE(turn.leased.size() == 1);
  CHECK(turn.leased[0].history.since_last_attempt == 10s);
  CHECK(turn.leased[0].history.misconfigured_for == 10s);
}

TEST_CASE("times are read in every form that SQLite takes") {
  SqliteFixture fixture;
  const auto insert = [&](const std::string& id, const std::string& not_before) {
    fixture.application().exec(
        "INSERT INTO outbox_messages (id, event_type, not_before_utc, "
        "payload) VALUES ('" +
        id + "', 't', '" + not_before + "', 'p')");
  };
  insert("space", "2026-12-12 18:00:00");
  insert("past", "2026-01-01 00:00");
  insert("unix", "1893456000");
  insert("offset", "2026-12-12T19:00:00+02:00");
  insert("nonsense", "when it suits you");
  Client relay(fixture);
  const Turn turn = committed(relay.turn());
  REQUIRE(ids_of(turn) == Ids{"past", "nonsense"});
  CHECK_FALSE(turn.leased[0].defect.has_value());
  REQUIRE(turn.leased[1].defect.has_value());
  CHECK(turn.leased[1].defect->find("not_before_utc") != std::string::npos);
}

}  // namespace
}  // namespace outbox::conformance
