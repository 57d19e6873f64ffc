// When a walk over an index begins anew.
#include "storage/postgres/walk.h"

#include <doctest/doctest.h>

namespace outbox::postgres {
namespace {

using namespace std::chrono_literals;

constexpr Time kStart{1h};

// Under way, at some place.
Walk<Place> walk_that_has_spent(Duration time) {
  Walk<Place> walk;
  walk.begin(kStart);
  walk.advance({100, ""});
  walk.spend(time);
  return walk;
}

bool starts_over_after(Walk<Place> walk, Duration time) {
  walk.begin(kStart + time);
  return !walk.position().has_value();
}

TEST_CASE("a cheap walk starts over each second, for rows that are committed late") {
  CHECK_FALSE(starts_over_after(walk_that_has_spent(1ms), 900ms));
  CHECK(starts_over_after(walk_that_has_spent(1ms), 1s));
}

TEST_CASE("a dear walk starts over less often, but within five seconds") {
  CHECK_FALSE(starts_over_after(walk_that_has_spent(100ms), 1900ms));
  CHECK(starts_over_after(walk_that_has_spent(100ms), 2s));
  CHECK_FALSE(starts_over_after(walk_that_has_spent(30s), 4900ms));
  CHECK(starts_over_after(walk_that_has_spent(30s), 5s));
}

}  // namespace
}  // namespace outbox::postgres
