#include "relay/judge.h"

#include <algorithm>
#include <utility>

#include "relay/check.h"

namespace outbox {
namespace {

constexpr std::size_t kReasonMax = 1024;
constexpr const char* kShortCircuitReason = "not sent: the circuit is open";

Settlement about(const Message& message, Verdict verdict) {
  Settlement settlement;
  settlement.row = message.row;
  settlement.lease = message.lease;
  settlement.generation = message.generation;
  settlement.verdict = verdict;
  return settlement;
}

Settlement buried(const Message& message, DeadReason why, std::string reason) {
  Settlement settlement = about(message, Verdict::dead);
  settlement.dead_reason = why;
  settlement.reason = std::move(reason);
  return settlement;
}

// Failures that say something about the broker rather than about the message.
bool is_outage(FailureKind kind) {
  return kind == FailureKind::transport || kind == FailureKind::throttled ||
         kind == FailureKind::short_circuited;
}

FailureKind kind_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::transport:
      return FailureKind::transport;
    case Outcome::throttled:
      return FailureKind::throttled;
    case Outcome::misconfigured:
      return FailureKind::misconfigured;
    case Outcome::refused:
      return FailureKind::refused;
    case Outcome::conflict:
      return FailureKind::conflict;
    case Outcome::confirmed:
    case Outcome::cancelled:
      return FailureKind::none;
  }
  return FailureKind::none;
}

// Not within a character: bytes 10xxxxxx continue one.
std::string cut(const std::string& reason) {
  std::size_t length = std::min(reason.size(), kReasonMax);
  while (length < reason.size() && length > 0 &&
         (static_cast<unsigned char>(reason[length]) & 0xc0) == 0x80) {
    --length;
  }
  return reason.substr(0, length);
}

}  // namespace

void Judge::retune(const RetryOptions& retry) {
  options_.retry = retry;
  retry_ = RetryPolicy(retry);
}

Settlement Judge::judge(const Held& held, const Receipt& receipt, Time) {
  RELAY_CHECK(receipt.outcome != Outcome::cancelled);
  if (receipt.outcome == Outcome::confirmed) return about(held.message, Verdict::delivered);
  const FailureKind kind = kind_of(receipt.outcome);
  if (kind == FailureKind::refused && !receipt.sent) return refused(held, receipt);
  if (options_.charge_every_failure) return failed(held, kind, receipt);
  if (kind == FailureKind::misconfigured) return misconfigured(held, receipt);
  if (kind == FailureKind::refused) return refused(held, receipt);
  return failed(held, kind, receipt);
}

Settlement Judge::short_circuited(const Held& held) {
  Receipt receipt;
  receipt.outcome = Outcome::transport;
  receipt.reason = kShortCircuitReason;
  return failed(held, FailureKind::short_circuited, receipt);
}

Settlement Judge::turned_away(const Held& held, Time now) {
  Settlement settlement = about(held.message, Verdict::held);
  settlement.kind = FailureKind::held;
  settlement.reason = "not sent: the destination is held";
  settlement.delay = destinations_.delay_when_held(held.destination, now, random_);
  settlement.waits_for_recovery = true;
  return settlement;
}

Settlement Judge::unroutable(const Held& held, const std::string& why) {
  Settlement settlement = about(held.message, Verdict::held);
  settlement.kind = FailureKind::held;
  settlement.reason = cut(why);
  settlement.delay = options_.misconfigured_delay_max;
  return settlement;
}

Settlement Judge::released(const Message& message) { return about(message, Verdict::released); }

std::optional<Settlement> Judge::unsendable(const Message& message) const {
  if (message.defect) return buried(message, DeadReason::invalid_row, cut(*message.defect));
  if (message.payload_size > options_.payload_max) {
    return buried(message, DeadReason::oversized,
                  "the payload has " + std::to_string(message.payload_size) +
                      " bytes, relay.maxPayload allows " + std::to_string(options_.payload_max));
  }
  return std::nullopt;
}

Settlement Judge::failed(const Held& held, FailureKind kind, const Receipt& receipt) {
  const RowHistory& history = held.message.history;
  LadderPosition position;
  position.failures = history.retry_count + (history.retry_count < UINT32_MAX ? 1 : 0);
  position.counts = counts_toward_death(held, kind);
  position.counted = history.counted + (position.counts ? 1 : 0);
  position.last_delay = history.last_delay;
  const std::optional<Duration> delay = retry_.delay_after(position, random_);

  Settlement settlement =
      delay ? about(held.message, Verdict::retry)
            : buried(held.message, DeadReason::attempts_exhausted, receipt.reason);
  settlement.kind = kind;
  settlement.reason = cut(receipt.reason);
  settlement.charge = 1;
  settlement.counts = position.counts;
  settlement.attempted = receipt.sent;
  settlement.outcome_unknown = receipt.outcome_unknown;
  if (delay) settlement.delay = std::max(*delay, receipt.wait);
  settlement.waits_for_recovery = is_outage(kind) && !options_.charge_every_failure;
  return settlement;
}

Settlement Judge::misconfigured(const Held& held, const Receipt& receipt) {
  const RowHistory& history = held.message.history;
  const bool outlived =
      history.misconfigured_for.value_or(Duration{0}) >= options_.misconfigured_life;
  const auto accepted = destinations_.last_confirmed(held.destination);
  const bool others_pass = accepted && *accepted > held.leased_at - options_.misconfigured_life;
  Settlement settlement = about(held.message, Verdict::held);
  if (outlived && others_pass && !destinations_.is_held(held.destination)) {
    settlement = buried(held.message, DeadReason::misconfigured, receipt.reason);
  }
  settlement.kind = FailureKind::misconfigured;
  settlement.reason = cut(receipt.reason);
  settlement.attempted = receipt.sent;
  settlement.delay = misconfigured_delay(history.misconfigured_tries);
  settlement.waits_for_recovery = true;
  return settlement;
}

Settlement Judge::refused(const Held& held, const Receipt& receipt) {
  if (receipt.sent && destinations_.is_held(held.destination)) return misconfigured(held, receipt);
  Settlement settlement = buried(held.message, DeadReason::permanent, cut(receipt.reason));
  settlement.kind = FailureKind::refused;
  settlement.charge = receipt.sent ? 1 : 0;
  settlement.attempted = receipt.sent;
  return settlement;
}

// The outage guard: a failure that the broker's outage explains is no step toward death. It is a
// step only if, since this row's previous attempt, its destination took another message and the
// circuit stayed closed all the while.
bool Judge::counts_toward_death(const Held& held, FailureKind kind) const {
  if (!options_.retry.outage_guard || !is_outage(kind)) return true;
  const Time since = held.leased_at - held.message.history.since_last_attempt.value_or(Duration{0});
  if (!breaker_.closed_since(since)) return false;
  const auto confirmed = destinations_.last_confirmed(held.destination);
  return confirmed && *confirmed > since;
}

Duration Judge::misconfigured_delay(std::uint32_t tries) const {
  Duration delay = options_.misconfigured_delay;
  for (std::uint32_t i = 0; i < tries && delay < options_.misconfigured_delay_max; ++i) delay *= 2;
  return std::min(delay, options_.misconfigured_delay_max);
}

}  // namespace outbox
