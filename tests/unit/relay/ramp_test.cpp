#include "relay/ramp.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <limits>
#include <vector>

namespace outbox {
namespace {

std::vector<std::size_t> rounds(Ramp& ramp, std::size_t most) {
  std::vector<std::size_t> limits{ramp.limit()};
  while (limits.size() < most) {
    const std::size_t before = ramp.limit();
    for (std::size_t i = 0; i < before; ++i) ramp.on_confirmed();
    if (ramp.limit() == before) break;
    limits.push_back(ramp.limit());
  }
  return limits;
}

TEST_CASE("a ramp that was never restarted allows everything") {
  Ramp ramp(256);
  CHECK(ramp.limit() == 256);
  ramp.on_confirmed();
  ramp.on_failed();
  CHECK(ramp.limit() == 256);
}

TEST_CASE("a restarted ramp doubles with every full round") {
  Ramp ramp(256);
  ramp.restart();
  CHECK(rounds(ramp, 20) == std::vector<std::size_t>{1, 2, 4, 8, 16, 32, 64, 128, 256});
}

TEST_CASE("the last step of a ramp stops at its full limit") {
  Ramp ramp(100);
  ramp.restart();
  CHECK(rounds(ramp, 20) == std::vector<std::size_t>{1, 2, 4, 8, 16, 32, 64, 100});
  for (int i = 0; i < 1000; ++i) ramp.on_confirmed();
  CHECK(ramp.limit() == 100);
}

TEST_CASE("a round takes as many confirmations as its limit, not one fewer") {
  Ramp ramp(256);
  ramp.restart();
  ramp.on_confirmed();
  REQUIRE(ramp.limit() == 2);
  ramp.on_confirmed();
  CHECK(ramp.limit() == 2);
  ramp.on_confirmed();
  CHECK(ramp.limit() == 4);
  for (int i = 0; i < 3; ++i) ramp.on_confirmed();
  CHECK(ramp.limit() == 4);
  ramp.on_confirmed();
  CHECK(ramp.limit() == 8);
}

TEST_CASE("a failure starts the round again and keeps the limit") {
  Ramp ramp(256);
  ramp.restart();
  for (int i = 0; i < 3; ++i) ramp.on_confirmed();
  REQUIRE(ramp.limit() == 4);
  for (int i = 0; i < 3; ++i) ramp.on_confirmed();
  ramp.on_failed();
  CHECK(ramp.limit() == 4);
  for (int i = 0; i < 3; ++i) ramp.on_confirmed();
  CHECK(ramp.limit() == 4);
  ramp.on_confirmed();
  CHECK(ramp.limit() == 8);
}

TEST_CASE("a restart on the way forgets the round begun") {
  Ramp ramp(256);
  ramp.restart();
  for (int i = 0; i < 6; ++i) ramp.on_confirmed();
  ramp.restart();
  CHECK(ramp.limit() == 1);
  ramp.on_confirmed();
  CHECK(ramp.limit() == 2);
  ramp.on_confirmed();
  CHECK(ramp.limit() == 2);
}

TEST_CASE("the smallest and the largest window ramp without going astray") {
  Ramp none(0);
  none.restart();
  none.on_confirmed();
  CHECK(none.limit() == 0);

  Ramp one(1);
  one.restart();
  CHECK(one.limit() == 1);
  one.on_confirmed();
  CHECK(one.limit() == 1);

  Ramp huge(std::numeric_limits<std::size_t>::max());
  huge.restart();
  CHECK(rounds(huge, 12).back() == 2048);
}

}  // namespace
}  // namespace outbox
