// Clean-ups of an SQLite outbox: how they get on with others.
#include "storage/mapping/clean_pace.h"
#include "tests/conformance/sqlite_fixture.h"
#include "tests/conformance/store_cases.h"

namespace outbox::conformance {
namespace {

constexpr const char* kTwoDelivered =
    "INSERT INTO outbox_messages (id, event_type, payload, status, processed_on_utc) VALUES "
    "('a', 'x', '{}', 'Processed', '2026-01-01T00:00:00.000Z'), "
    "('b', 'x', '{}', 'Processed', '2026-01-01T00:00:00.000Z')";

// Steps until one removes something, has to wait, or is the last.
CleanStep step_of_note(OutboxDesk& desk, const CleanRequest& request) {
  while (true) {
    const auto step = desk.clean(request);
    REQUIRE_MESSAGE(step.ok(), step.error);
    if (step.value.removed() > 0 || step.value.busy || step.value.done) return step.value;
  }
}

CleanRequest processed_at_once() {
  CleanRequest request;
  request.processed = Duration{0};
  return request;
}

TEST_CASE("a clean-up gives way to a writer, and goes on later") {
  SqliteFixture fixture;
  fixture.application().exec(kTwoDelivered);
  const auto desk = fixture.open_desk();
  fixture.application().exec("BEGIN IMMEDIATE");
  const CleanStep busy = step_of_note(*desk, processed_at_once());
  CHECK(busy.busy);
  CHECK(busy.removed() == 0);
  CHECK(busy.rest > Duration{0});
  fixture.application().exec("COMMIT");
  const CleanStep step = step_of_note(*desk, processed_at_once());
  CHECK(step.processed == 2);
  CHECK(step.rest > step.held);
}

TEST_CASE("a row that is no longer processed when it is to be deleted stays") {
  SqliteFixture fixture;
  fixture.application().exec(kTwoDelivered);
  const auto desk = fixture.open_desk();
  REQUIRE(desk->clean(processed_at_once()).value.removed() == 0);  // only looks
  fixture.application().exec("UPDATE outbox_messages SET status = 'Pending' WHERE id = 'a'");
  CHECK(step_of_note(*desk, processed_at_once()).processed == 1);
  CHECK(fixture.read("a").status == "Pending");
}

TEST_CASE("two clean-ups at once remove each row once") {
  SqliteFixture fixture;
  fixture.application().exec(kTwoDelivered);
  const auto one = fixture.open_desk();
  const auto other = fixture.open_desk();
  REQUIRE(one->clean(processed_at_once()).ok());
  REQUIRE(other->clean(processed_at_once()).ok());
  CHECK(step_of_note(*one, processed_at_once()).processed == 2);
  CHECK(step_of_note(*other, processed_at_once()).processed == 0);
}

TEST_CASE("a row that a trigger keeps stays, and the others go") {
  SqliteFixture fixture;
  fixture.application().exec(kTwoDelivered);
  fixture.refuse_changes("a");
  const auto desk = fixture.open_desk();
  CHECK(step_of_note(*desk, processed_at_once()).processed == 1);
  CHECK(fixture.read("a").status == "Processed");
  CHECK(step_of_note(*desk, processed_at_once()).done);
}

TEST_CASE("a database that is replaced during a clean-up is walked from its start") {
  SqliteFixture fixture;
  fixture.application().exec(kTwoDelivered);
  const auto desk = fixture.open_desk();
  REQUIRE(step_of_note(*desk, processed_at_once()).processed == 2);
  fixture.close_application();
  SqliteFixture other;
  other.application().exec(kTwoDelivered);
  other.application().exec("PRAGMA wal_checkpoint(TRUNCATE)");
  other.close_application();
  std::filesystem::remove(fixture.path() + "-wal");
  std::filesystem::remove(fixture.path() + "-shm");
  std::filesystem::rename(other.path(), fixture.path());
  CHECK(step_of_note(*desk, processed_at_once()).processed == 2);
}

TEST_CASE(
    "the pace halves after a long hold, grows while rows go quickly, and rests in proportion") {
  CleanPace pace;
  const std::size_t begun = pace.limit(100'000);
  pace.held(begun, 20ms);
  CHECK(pace.limit(100'000) == begun / 2);
  for (int i = 0; i < 100; ++i) pace.held(pace.limit(500), 100us);
  CHECK(pace.limit(500) == 500);
  for (int i = 0; i < 100; ++i) pace.held(pace.limit(500), 1h);
  CHECK(pace.limit(500) >= 1);
  CHECK(CleanPace::rest(2ms, true) >= 20ms);
  CHECK(CleanPace::rest(2ms, false) >= 8ms);
  CHECK(CleanPace::rest(0ms, false) >= 1ms);
}

}  // namespace
}  // namespace outbox::conformance
