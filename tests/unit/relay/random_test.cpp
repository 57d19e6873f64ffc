#include "relay/random.h"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>

namespace outbox {
namespace {

TEST_CASE("a seed gives the sequence of the published generator") {
  // Computed by another implementation of both algorithms, itself checked against their vectors.
  Random zero(0);
  CHECK(zero.next() == 0x99ec5f36cb75f2b4u);
  CHECK(zero.next() == 0xbf6e1f784956452au);
  CHECK(zero.next() == 0x1a5f849d4933e6e0u);
  CHECK(zero.next() == 0x6aa594f1262d2d2cu);
  CHECK(zero.next() == 0xbba5ad4a1f842e59u);

  Random other(42);
  CHECK(other.next() == 0x15780b2e0c2ec716u);
  CHECK(other.next() == 0x6104d9866d113a7eu);
}

TEST_CASE("a unit draw is the upper 53 bits of a number") {
  Random random(42);
  CHECK(random.unit() == 0x1.5780b2e0c2ec0p-4);
  CHECK(random.unit() == 0x1.84136619b444ep-2);
  CHECK(random.unit() == 0x1.5c2ea66473c93p-1);
}

TEST_CASE("the same seed replays, another one does not") {
  Random first(7);
  Random again(7);
  Random other(8);
  bool differs = false;
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t number = first.next();
    CHECK(number == again.next());
    differs = differs || number != other.next();
  }
  CHECK(differs);
}

TEST_CASE("unit draws stay below one and spread evenly") {
  Random random(1);
  std::array<int, 10> bins{};
  constexpr int kDraws = 100'000;
  for (int i = 0; i < kDraws; ++i) {
    const double value = random.unit();
    REQUIRE(value >= 0);
    REQUIRE(value < 1);
    ++bins[static_cast<std::size_t>(value * 10)];
  }
  // Five standard deviations of a bin are 474.
  for (const int count : bins) {
    CHECK(count > kDraws / 10 - 474);
    CHECK(count < kDraws / 10 + 474);
  }
}

TEST_CASE("a draw between two bounds keeps to them") {
  Random random(2);
  for (int i = 0; i < 10'000; ++i) {
    const double value = random.between(0.8, 1.2);
    REQUIRE(value >= 0.8);
    REQUIRE(value < 1.2);
  }
  CHECK(random.between(3, 3) == 3);
}

TEST_CASE("a draw below a bound is a remainder of the sequence") {
  Random random(5);
  for (const std::uint64_t expected : {5u, 6u, 2u, 3u, 3u, 5u, 5u, 6u}) {
    CHECK(random.below(10) == expected);
  }
  CHECK(random.below(0) == 0);
  CHECK(random.below(1) == 0);
}

TEST_CASE("a chance of nothing never comes and a certainty always does") {
  Random random(3);
  int hits = 0;
  for (int i = 0; i < 10'000; ++i) {
    CHECK_FALSE(random.chance(0));
    CHECK(random.chance(1));
    hits += random.chance(0.25) ? 1 : 0;
  }
  // Five standard deviations are 217.
  CHECK(hits > 2283);
  CHECK(hits < 2717);
}

}  // namespace
}  // namespace outbox
