#include "relay/retry_policy.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace outbox {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr std::uint32_t kMost = std::numeric_limits<std::uint32_t>::max();

RetryOptions with_jitter(Jitter jitter) {
  RetryOptions options;
  options.jitter = jitter;
  return options;
}

// The n-th failure in a row of a row whose failures all count.
LadderPosition counted(std::uint32_t failures) { return {failures, failures, true, Duration{0}}; }

TEST_CASE("the backoff doubles from the base to the cap and stays there") {
  const RetryPolicy policy(RetryOptions{});
  const std::int64_t expected[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300};
  std::uint32_t failures = 0;
  for (const std::int64_t wait : expected) CHECK(policy.backoff(++failures) == seconds{wait});
}

TEST_CASE("the backoff never overflows, however often a row has failed") {
  RetryOptions options;
  for (const double factor : {2.0, 1.5, 10.0, 1e300}) {
    options.factor = factor;
    const RetryPolicy policy(options);
    for (const std::uint32_t failures : {64u, 65u, 1024u, 1025u, 16'385u, 1'000'000u, kMost}) {
      CAPTURE(failures);
      CHECK(policy.backoff(failures) == minutes{5});
    }
  }
}

TEST_CASE("the backoff grows up to the longest time there is") {
  RetryOptions options;
  options.base_delay = nanoseconds{1};
  options.max_delay = Duration::max();
  const RetryPolicy policy(options);
  for (std::uint32_t failures = 1; failures <= 63; ++failures) {
    CHECK(policy.backoff(failures).count() == std::int64_t{1} << (failures - 1));
  }
  CHECK(policy.backoff(64) == Duration::max());
  CHECK(policy.backoff(kMost) == Duration::max());
}

TEST_CASE("a whole factor is exact up to the cap") {
  RetryOptions options;
  options.base_delay = nanoseconds{7};
  options.factor = 3;
  options.max_delay = hours{24 * 365};
  const RetryPolicy policy(options);
  std::int64_t expected = 7;
  std::uint32_t failures = 1;
  for (; expected < options.max_delay.count(); expected *= 3) {
    CHECK(policy.backoff(failures++).count() == expected);
  }
  CHECK(failures > 30);
  CHECK(policy.backoff(failures) == options.max_delay);
}

TEST_CASE("a whole factor is exact beyond what a double can hold") {
  RetryOptions options;
  options.base_delay = nanoseconds{1};
  options.factor = 3;
  options.max_delay = Duration::max();
  const RetryPolicy policy(options);
  std::int64_t expected = 1;
  for (std::uint32_t failures = 1; failures <= 40; ++failures) {
    CHECK(policy.backoff(failures).count() == expected);
    if (failures < 40) expected *= 3;
  }
  CHECK(policy.backoff(41) == Duration::max());
}

TEST_CASE("a fractional factor gives the nearest nanosecond") {
  RetryOptions options;
  options.factor = 1.2;
  const RetryPolicy policy(options);
  CHECK(policy.backoff(1) == milliseconds{1000});
  CHECK(policy.backoff(2) == milliseconds{1200});
  CHECK(policy.backoff(3) == milliseconds{1440});
  CHECK(policy.backoff(4) == milliseconds{1728});
}

TEST_CASE("a factor of one waits the base each time") {
  RetryOptions options;
  options.factor = 1;
  const RetryPolicy policy(options);
  for (const std::uint32_t failures : {1u, 2u, 1'000'000u, kMost}) {
    CHECK(policy.backoff(failures) == seconds{1});
  }
}

TEST_CASE("a base over the cap is capped, and no base is no wait") {
  RetryOptions options;
  options.base_delay = minutes{6};
  CHECK(RetryPolicy(options).backoff(1) == minutes{5});
  options.base_delay = Duration{0};
  CHECK(RetryPolicy(options).backoff(1) == Duration{0});
  CHECK(RetryPolicy(options).backoff(kMost) == Duration{0});
}

// The expected waits were computed with exact fractions by another program, from the same numbers.
struct Golden {
  Jitter jitter;
  std::int64_t waits[6];
};

TEST_CASE("a seed gives these waits and no others") {
  const std::uint32_t failures[] = {1, 2, 5, 9, 10, 20};
  const Golden rows[] = {
      {Jitter::full, {55792889, 1564207546, 1152879041, 40887262742, 232095116916, 73461637337}},
      {Jitter::equal,
       {527896445, 1782103773, 8576439521, 148443631371, 266047558458, 186730818668}},
      {Jitter::proportional,
       {822317156, 2225683018, 13261151616, 221154905097, 332838046766, 269384654935}},
      {Jitter::none,
       {1000000000, 2000000000, 16000000000, 256000000000, 300000000000, 300000000000}},
  };
  for (const Golden& row : rows) {
    const RetryPolicy policy(with_jitter(row.jitter));
    Random random(2024);
    for (std::size_t i = 0; i < 6; ++i) {
      const Duration wait = policy.jittered(policy.backoff(failures[i]), Duration{0}, random);
      CAPTURE(i);
      CHECK(wait.count() == row.waits[i]);
    }
  }
}

TEST_CASE("decorrelated jitter goes on from the last wait") {
  const RetryPolicy policy(with_jitter(Jitter::decorrelated));
  const std::int64_t expected[] = {1111585778, 2826022520, 1538831710, 1577611666,
                                   3887909251, 3611249669, 4877799174, 4503882150};
  Random random(2024);
  Duration last{0};
  for (const std::int64_t wait : expected) {
    last = policy.jittered(seconds{1}, last, random);
    CHECK(last.count() == wait);
  }
}

TEST_CASE("a failed attempt draws the jitter of its own backoff") {
  const RetryPolicy policy(RetryOptions{});
  Random random(2024);
  for (const std::int64_t expected : {55792889LL, 1564207546LL}) {
    const std::uint32_t failures = expected == 55792889 ? 1 : 2;
    CHECK(policy.delay_after(counted(failures), random) == Duration{expected});
  }
}

struct Bounds {
  Jitter jitter;
  Duration low;
  Duration high;
  double mean;  // seconds
};

TEST_CASE("each jitter keeps to its bounds and fills them evenly") {
  // For a backoff of 16 s, decorrelated after a wait of 5 s.
  const Bounds rows[] = {
      {Jitter::full, seconds{0}, seconds{16}, 8},
      {Jitter::equal, seconds{8}, seconds{16}, 12},
      {Jitter::proportional, milliseconds{12800}, milliseconds{19200}, 16},
      {Jitter::decorrelated, seconds{1}, seconds{15}, 8},
      {Jitter::none, seconds{16}, seconds{16}, 16},
  };
  constexpr int kDraws = 20'000;
  for (const Bounds& row : rows) {
    const RetryPolicy policy(with_jitter(row.jitter));
    Random random(11);
    Duration least = Duration::max();
    Duration most{0};
    double sum = 0;
    for (int i = 0; i < kDraws; ++i) {
      const Duration wait = policy.jittered(seconds{16}, seconds{5}, random);
      least = std::min(least, wait);
      most = std::max(most, wait);
      sum += std::chrono::duration<double>(wait).count();
    }
    CAPTURE(static_cast<int>(row.jitter));
    CHECK(least >= row.low);
    CHECK(most <= row.high);
    const Duration hundredth = (row.high - row.low) / 100;
    CHECK(least <= row.low + hundredth);
    CHECK(most >= row.high - hundredth);
    // Over five standard deviations of the mean of a uniform draw.
    const double width = std::chrono::duration<double>(row.high - row.low).count();
    CHECK(sum / kDraws == doctest::Approx(row.mean).epsilon(0.0001 + width * 0.0125 / row.mean));
  }
}

TEST_CASE("decorrelated jitter is capped and takes a senseless last wait for the base") {
  const RetryPolicy policy(with_jitter(Jitter::decorrelated));
  Random random(3);
  bool reached_cap = false;
  for (int i = 0; i < 1000; ++i) {
    const Duration wait = policy.jittered(seconds{1}, minutes{4}, random);
    REQUIRE(wait >= seconds{1});
    REQUIRE(wait <= minutes{5});
    reached_cap = reached_cap || wait == minutes{5};
    REQUIRE(policy.jittered(seconds{1}, -hours{1}, random) <= seconds{3});
    REQUIRE(policy.jittered(seconds{1}, Duration::max(), random) <= minutes{5});
  }
  CHECK(reached_cap);
}

TEST_CASE("jitter comes after the cap: rows at the cap do not meet") {
  const RetryPolicy policy(with_jitter(Jitter::proportional));
  Random random(4);
  std::vector<Duration> waits;
  for (int i = 0; i < 100; ++i) waits.push_back(*policy.delay_after({50, 3, true, {}}, random));
  std::sort(waits.begin(), waits.end());
  CHECK(std::adjacent_find(waits.begin(), waits.end()) == waits.end());
  CHECK(waits.back() > minutes{5});
  CHECK(waits.front() < minutes{5});
}

TEST_CASE("after the last attempt of the first level come the redeliveries, then death") {
  const RetryPolicy policy(RetryOptions{});
  Random random(2024);
  CHECK(policy.attempts_to_death() == 9);
  CHECK(policy.delay_after(counted(6), random) == Duration{54669514669});
  CHECK(policy.delay_after(counted(7), random) == Duration{633852452744});
  CHECK(policy.delay_after(counted(8), random) == Duration{3291879556845});
  CHECK(policy.delay_after(counted(9), random) == std::nullopt);
  CHECK(policy.delay_after(counted(10), random) == std::nullopt);
  CHECK(policy.delay_after(counted(kMost), random) == std::nullopt);
}

TEST_CASE("the last attempt but one of the first level still waits its backoff") {
  const RetryPolicy policy(with_jitter(Jitter::none));
  Random random(1);
  CHECK(policy.delay_after(counted(5), random) == seconds{16});
  const std::optional<Duration> redelivery = policy.delay_after(counted(6), random);
  REQUIRE(redelivery);
  CHECK(*redelivery >= seconds{54});
  CHECK(*redelivery <= seconds{66});
}

TEST_CASE("redeliveries spread by a tenth to either side") {
  const RetryPolicy policy(with_jitter(Jitter::none));
  Random random(8);
  Duration least = Duration::max();
  Duration most{0};
  for (int i = 0; i < 10'000; ++i) {
    const Duration wait = *policy.delay_after(counted(7), random);
    least = std::min(least, wait);
    most = std::max(most, wait);
  }
  CHECK(least >= seconds{540});
  CHECK(least < seconds{542});
  CHECK(most <= seconds{660});
  CHECK(most > seconds{658});
}

TEST_CASE("without redeliveries the first level's end is death") {
  RetryOptions options = with_jitter(Jitter::none);
  options.redelivery_intervals.clear();
  const RetryPolicy policy(options);
  Random random(1);
  CHECK(policy.attempts_to_death() == 6);
  CHECK(policy.delay_after(counted(5), random) == seconds{16});
  CHECK(policy.delay_after(counted(6), random) == std::nullopt);
}

TEST_CASE("a single attempt means what it says") {
  RetryOptions options;
  options.max_attempts = 1;
  options.redelivery_intervals.clear();
  Random random(1);
  CHECK(RetryPolicy(options).delay_after(counted(1), random) == std::nullopt);
  CHECK(RetryPolicy(options).span() == Duration{0});
}

TEST_CASE("a failure that does not count never ends the ladder") {
  const RetryPolicy policy(with_jitter(Jitter::none));
  Random random(1);
  for (const std::uint32_t failures : {6u, 9u, 100u, 1'000'000u, kMost}) {
    for (const std::uint32_t of_them_counted : {0u, 5u, 6u, 8u, 9u, 10u}) {
      const LadderPosition position{failures, of_them_counted, false, Duration{0}};
      CHECK(policy.delay_after(position, random) == minutes{5});
    }
  }
}

TEST_CASE("a failure that does not count waits its backoff while the row has attempts left") {
  const RetryPolicy policy(with_jitter(Jitter::none));
  Random random(1);
  for (std::uint32_t failures = 1; failures < 6; ++failures) {
    const LadderPosition position{failures, 0, false, Duration{0}};
    CHECK(policy.delay_after(position, random) == seconds{1 << (failures - 1)});
  }
}

TEST_CASE("the wait of a row that may not die is jittered like any other") {
  const RetryPolicy policy(RetryOptions{});
  Random random(9);
  Random same(9);
  const LadderPosition position{7, 2, false, Duration{0}};
  CHECK(policy.delay_after(position, random) == policy.jittered(minutes{5}, Duration{0}, same));
}

TEST_CASE("a failure that counts waits its backoff until the counted ones are used up") {
  const RetryPolicy policy(with_jitter(Jitter::none));
  Random random(1);
  CHECK(policy.delay_after({7, 2, true, {}}, random) == seconds{64});
  CHECK(policy.delay_after({8, 5, true, {}}, random) == seconds{128});
}

TEST_CASE("a row that outlived an outage dies by its counted failures only") {
  const RetryPolicy policy(with_jitter(Jitter::none));
  Random random(1);
  // 40 failures in the outage, then the broker is back and refuses this row alone.
  CHECK(policy.delay_after({41, 1, true, {}}, random) == minutes{5});
  CHECK(policy.delay_after({45, 5, true, {}}, random) == minutes{5});
  const std::optional<Duration> redelivery = policy.delay_after({46, 6, true, {}}, random);
  REQUIRE(redelivery);
  CHECK(*redelivery <= seconds{66});
  CHECK(policy.delay_after({48, 8, true, {}}, random) > hours{0});
  CHECK(policy.delay_after({49, 9, true, {}}, random) == std::nullopt);
}

TEST_CASE("the attempts to death do not wrap round") {
  RetryOptions options;
  options.max_attempts = kMost;
  const RetryPolicy policy(options);
  Random random(1);
  CHECK(policy.attempts_to_death() == kMost);
  CHECK(policy.delay_after(counted(kMost - 1), random) <= minutes{5});
}

TEST_CASE("the span is the sum of the longest waits") {
  struct Row {
    Jitter jitter;
    Duration first_level;
  };
  const Row rows[] = {
      {Jitter::full, seconds{31}},
      {Jitter::equal, seconds{31}},
      {Jitter::none, seconds{31}},
      {Jitter::proportional, milliseconds{37200}},
      {Jitter::decorrelated, seconds{3 + 9 + 27 + 81 + 243}},
  };
  for (const Row& row : rows) {
    CAPTURE(static_cast<int>(row.jitter));
    const RetryPolicy policy(with_jitter(row.jitter));
    CHECK(policy.span() == row.first_level + seconds{66} + minutes{11} + minutes{66});
  }
}

TEST_CASE("the cap bounds the longest waits as well") {
  RetryOptions options = with_jitter(Jitter::decorrelated);
  options.max_attempts = 8;
  options.redelivery_intervals.clear();
  CHECK(RetryPolicy(options).span() == seconds{3 + 9 + 27 + 81 + 243 + 300 + 300});
  options.max_attempts = 11;
  options.jitter = Jitter::proportional;
  CHECK(RetryPolicy(options).span() == milliseconds{(511 + 300) * 1200});
}

TEST_CASE("no walk down the ladder takes longer than the span") {
  for (const Jitter jitter :
       {Jitter::full, Jitter::equal, Jitter::decorrelated, Jitter::proportional, Jitter::none}) {
    const RetryPolicy policy(with_jitter(jitter));
    Random random(21);
    Duration longest{0};
    for (int walk = 0; walk < 2000; ++walk) {
      Duration sum{0};
      Duration last{0};
      std::uint32_t failures = 1;
      while (const auto wait = policy.delay_after({failures, failures, true, last}, random)) {
        sum += *wait;
        last = *wait;
        ++failures;
      }
      CHECK(failures == 9);
      longest = std::max(longest, sum);
    }
    CHECK(longest <= policy.span());
    CHECK(longest > policy.span() / 2);
  }
}

TEST_CASE("the span of a ladder without end is told without counting it out") {
  RetryOptions options = with_jitter(Jitter::none);
  options.redelivery_intervals.clear();
  options.max_attempts = 1'000'001;
  // 511 s on the way up, then the cap a million times but nine.
  CHECK(RetryPolicy(options).span() == seconds{511} + minutes{5} * (1'000'000 - 9));
  options.max_attempts = kMost;
  CHECK(RetryPolicy(options).span() == Duration::max());
  options.max_delay = seconds{2};
  CHECK(RetryPolicy(options).span() == seconds{1 + 2 * (std::int64_t{kMost} - 2)});
  options.factor = 1;
  CHECK(RetryPolicy(options).span() == seconds{std::int64_t{kMost} - 1});
}

RetryOptions as_in_adr_087() {
  RetryOptions options;
  options.max_attempts = 5;
  options.base_delay = seconds{10};
  options.factor = 2;
  options.max_delay = seconds{300};
  options.jitter = Jitter::proportional;
  options.redelivery_intervals.clear();
  options.outage_guard = false;
  return options;
}

// The record's ladder written out as a table.
struct RecordedStep {
  double seconds;
  bool dead;
};

constexpr RecordedStep kRecorded[] = {
    {10, false}, {20, false}, {40, false}, {80, false}, {0, true}};

TEST_CASE("the ladder of ADR-087 waits 10, 20, 40 and 80 s by a fifth, and the fifth is dead") {
  const RetryPolicy policy(as_in_adr_087());
  Random random(1987);
  for (std::uint32_t failures = 1; failures <= 5; ++failures) {
    const RecordedStep step = kRecorded[failures - 1];
    double least = 1e9;
    double most = 0;
    for (int i = 0; i < 5000; ++i) {
      const std::optional<Duration> wait = policy.delay_after(counted(failures), random);
      REQUIRE(wait.has_value() == !step.dead);
      if (!wait) continue;
      const double share = std::chrono::duration<double>(*wait).count() / step.seconds;
      least = std::min(least, share);
      most = std::max(most, share);
    }
    if (step.dead) continue;
    CHECK(least >= 0.8);
    CHECK(least < 0.802);
    CHECK(most <= 1.2);
    CHECK(most > 1.198);
  }
  CHECK(policy.span() == seconds{180});
}

TEST_CASE("the ladder of ADR-087 gives these waits for a seed") {
  const RetryPolicy policy(as_in_adr_087());
  Random random(87);
  std::uint32_t failures = 0;
  for (const std::int64_t wait : {11811242213, 19399536458, 32422655484, 79042165923}) {
    CHECK(policy.delay_after(counted(++failures), random) == Duration{wait});
  }
  CHECK(policy.delay_after(counted(5), random) == std::nullopt);
}

}  // namespace
}  // namespace outbox
