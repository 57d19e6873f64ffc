#include "relay/judge.h"

#include <doctest/doctest.h>

namespace outbox {
namespace {

using namespace std::chrono_literals;

constexpr Time kStart{1h};

struct Court {
  explicit Court(JudgeOptions chosen = {}) : options(std::move(chosen)) {
    options.retry.jitter = Jitter::none;
  }

  Settlement judge(Outcome outcome, const RowHistory& history = {}) {
    Held held;
    held.message.row = "1";
    held.message.lease = 9;
    held.message.history = history;
    held.destination = "there";
    held.leased_at = kStart;
    Receipt receipt;
    receipt.outcome = outcome;
    receipt.reason = "why";
    receipt.sent = true;
    Judge judge(options, destinations, breaker, random);
    return judge.judge(held, receipt, kStart + 1s);
  }

  JudgeOptions options;
  Destinations destinations{{}};
  CircuitBreaker breaker{{}, 1};
  Random random{1};
};

RowHistory tried(std::uint32_t failures, std::uint32_t counted) {
  RowHistory history;
  history.retry_count = failures;
  history.counted = counted;
  history.since_last_attempt = 10s;
  return history;
}

TEST_CASE("a settlement names the row and its lease, and a failure charges it once") {
  Court court;
  const Settlement settlement = court.judge(Outcome::transport);
  CHECK(settlement.row == "1");
  CHECK(settlement.lease == 9);
  CHECK(settlement.verdict == Verdict::retry);
  CHECK(settlement.charge == 1);
  CHECK(settlement.reason == "why");
  CHECK(settlement.delay == 1s);
}

TEST_CASE("a failure counts only if the destination took another message meanwhile") {
  Court court;
  CHECK_FALSE(court.judge(Outcome::transport, tried(1, 0)).counts);
  court.destinations.on_confirmed("elsewhere", kStart);
  CHECK_FALSE(court.judge(Outcome::transport, tried(1, 0)).counts);
  court.destinations.on_confirmed("there", kStart - 11s);  // before the last attempt
  CHECK_FALSE(court.judge(Outcome::transport, tried(1, 0)).counts);
  court.destinations.on_confirmed("there", kStart);
  CHECK(court.judge(Outcome::transport, tried(1, 0)).counts);
}

TEST_CASE("a failure does not count if the circuit has opened since the previous attempt") {
  Court court;
  court.destinations.on_confirmed("there", kStart);
  court.breaker.isolate(kStart - 5s);
  CHECK_FALSE(court.judge(Outcome::transport, tried(1, 0)).counts);
  court.breaker.close(kStart - 4s);
  CHECK_FALSE(court.judge(Outcome::transport, tried(1, 0)).counts);
  RowHistory recent = tried(1, 0);
  recent.since_last_attempt = 3s;
  CHECK(court.judge(Outcome::transport, recent).counts);
}

TEST_CASE("a row past its ladder that may not die waits the longest delay") {
  Court court;
  const Settlement settlement = court.judge(Outcome::transport, tried(400, 8));
  CHECK(settlement.verdict == Verdict::retry);
  CHECK(settlement.delay == 5min);
}

TEST_CASE("a counted failure at the ladder's end is death by attempts_exhausted") {
  Court court;
  court.destinations.on_confirmed("there", kStart);
  const Settlement settlement = court.judge(Outcome::transport, tried(8, 8));
  CHECK(settlement.verdict == Verdict::dead);
  CHECK(settlement.dead_reason == DeadReason::attempts_exhausted);
}

TEST_CASE("without the guard every failure counts") {
  JudgeOptions options;
  options.retry.outage_guard = false;
  Court court(options);
  CHECK(court.judge(Outcome::transport).counts);
}

TEST_CASE("a misconfigured answer charges nothing and waits 30 s doubling to 5 min") {
  Court court;
  RowHistory history;
  const Duration expected[] = {30s, 60s, 120s, 240s, 300s, 300s};
  for (const Duration delay : expected) {
    const Settlement settlement = court.judge(Outcome::misconfigured, history);
    CHECK(settlement.verdict == Verdict::held);
    CHECK(settlement.charge == 0);
    CHECK(settlement.delay == delay);
    ++history.misconfigured_tries;
  }
}

TEST_CASE("a row misconfigured for a day dies only while its destination accepts others") {
  Court court;
  RowHistory history;
  history.misconfigured_for = 24h;
  CHECK(court.judge(Outcome::misconfigured, history).verdict == Verdict::held);
  court.destinations.on_confirmed("there", kStart);
  const Settlement settlement = court.judge(Outcome::misconfigured, history);
  CHECK(settlement.verdict == Verdict::dead);
  CHECK(settlement.dead_reason == DeadReason::misconfigured);
}

TEST_CASE("a refusal is death, but not while the destination is held") {
  Court court;
  CHECK(court.judge(Outcome::refused).dead_reason == DeadReason::permanent);
  for (int i = 0; i < 11; ++i) {
    court.destinations.on_refusal("there", FailureKind::refused, "HTTP 400", kStart);
  }
  CHECK(court.judge(Outcome::refused).verdict == Verdict::held);
}

TEST_CASE("a conflict is retried and counts") {
  Court court;
  const Settlement settlement = court.judge(Outcome::conflict);
  CHECK(settlement.verdict == Verdict::retry);
  CHECK(settlement.counts);
  CHECK_FALSE(settlement.waits_for_recovery);
}

TEST_CASE("with every failure charged, a refusal climbs the ladder like any other") {
  JudgeOptions options;
  options.charge_every_failure = true;
  options.retry.outage_guard = false;
  options.retry.max_attempts = 5;
  options.retry.redelivery_intervals.clear();
  Court court(options);
  CHECK(court.judge(Outcome::refused).verdict == Verdict::retry);
  CHECK(court.judge(Outcome::misconfigured, tried(4, 4)).verdict == Verdict::dead);
}

TEST_CASE("rows that can't be sent are named for what is wrong with them") {
  Court court;
  Judge judge(court.options, court.destinations, court.breaker, court.random);
  Message message;
  CHECK_FALSE(judge.unsendable(message));
  message.payload_size = 5u << 20;
  REQUIRE(judge.unsendable(message));
  CHECK(judge.unsendable(message)->dead_reason == DeadReason::oversized);
  CHECK(judge.unsendable(message)->reason.find("5242880") != std::string::npos);
  message.defect = "headers: not JSON";
  CHECK(judge.unsendable(message)->dead_reason == DeadReason::invalid_row);
}

TEST_CASE("a reason that is too long ends with a whole character") {
  Court court;
  const Judge judge(court.options, court.destinations, court.breaker, court.random);
  Message message;
  message.defect = std::string(1023, 'x') + "\xc3\xa9";
  CHECK(judge.unsendable(message)->reason == std::string(1023, 'x'));
}

}  // namespace
}  // namespace outbox
