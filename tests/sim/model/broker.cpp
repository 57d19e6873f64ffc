#include "tests/sim/model/broker.h"

#include <algorithm>

#include "tests/sim/model/seeds.h"

namespace outbox::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

Duration share_of(Duration whole, Random& random) {
  return Duration{static_cast<Duration::rep>(
      random.below(static_cast<std::uint64_t>(std::max<Duration::rep>(whole.count(), 1))))};
}

}  // namespace

std::string destination_name(std::size_t number) { return "d" + std::to_string(number); }

Fate Broker::transport(Duration after, const char* reason) {
  Fate fate;
  fate.outcome = Outcome::transport;
  fate.accepted = false;
  fate.answered_after = after;
  fate.reason = reason;
  return fate;
}

Fate Broker::unanswered(Duration timeout, bool accepted, Duration accepted_after) {
  Fate fate = transport(timeout, "no answer in time");
  fate.accepted = accepted;
  fate.accepted_after = std::min(accepted_after, timeout);
  fate.outcome_unknown = true;
  return fate;
}

Fate Broker::decide(const Row& row, std::uint64_t attempt, Duration timeout, Time now) const {
  Random random(mix(scenario_.seed, "fate", row.number * 1'000'003 + attempt));
  Fate fate;
  const Duration latency = std::max<Duration>(scenario_.broker_latency, microseconds{2});
  fate.accepted_after = latency / 4 + share_of(latency, random);
  fate.answered_after = fate.accepted_after + latency / 4 + share_of(latency / 2, random);
  if (fate.answered_after >= timeout) return unanswered(timeout, true, fate.accepted_after);
  if (meets_episode(row, fate, timeout, now, random)) return fate;
  if (row.kind == RowKind::unfit) {
    fate.outcome = Outcome::refused;
    fate.accepted = false;
    fate.sent = false;
    fate.reason = "a header can't be represented";
    return fate;
  }
  if (row.kind == RowKind::poison) {
    fate.outcome = Outcome::refused;
    fate.accepted = false;
    fate.reason = "400 Bad Request";
    return fate;
  }
  if (row.kind == RowKind::misplaced) {
    fate = transport(fate.answered_after, "404 Not Found");
    fate.outcome = Outcome::misconfigured;
    return fate;
  }
  if (row.kind == RowKind::cursed) return transport(fate.answered_after, "500 on this one");
  meets_attempt_fault(fate, timeout, random);
  if (scenario_.bug == Bug::broker_forgets_accepted && row.number % 7 == 3) fate.accepted = false;
  return fate;
}

// Whether a lasting fault decides this attempt.
bool Broker::meets_episode(const Row& row, Fate& fate, Duration timeout, Time now,
                           Random& random) const {
  for (const Episode& episode : scenario_.episodes) {
    if (!faults_on_ || !episode.covers(now)) continue;
    if (episode.destination && row.destination != destination_name(*episode.destination)) continue;
    if (!random.chance(episode.share)) continue;
    const Fault kind = episode.kind;
    if (kind == Fault::refused_connections) {
      fate = transport(microseconds{200}, "connection refused");
    } else if (kind == Fault::black_hole) {
      fate = unanswered(timeout, false, Duration{0});
    } else if (kind == Fault::brownout) {
      fate = random.chance(0.5) ? unanswered(timeout, false, Duration{0})
                                : transport(fate.answered_after, "503 Service Unavailable");
    } else if (kind == Fault::dead_destination) {
      fate = transport(fate.answered_after, "502 Bad Gateway");
    } else if (kind == Fault::slow) {
      const Duration answered = share_of(3 * timeout, random);
      const Duration accepted = share_of(answered, random);
      if (answered >= timeout) {
        fate = unanswered(timeout, accepted < timeout, accepted);
      } else {
        fate.accepted_after = accepted;
        fate.answered_after = std::max(answered, accepted);
        return false;  // late, but otherwise like any other
      }
    } else if (kind == Fault::throttle) {
      fate = transport(fate.answered_after, "429 Too Many Requests");
      fate.outcome = Outcome::throttled;
      fate.wait = episode.wait;
    } else if (kind == Fault::misconfigured) {
      fate = transport(fate.answered_after, "403 Forbidden");
      fate.outcome = Outcome::misconfigured;
    } else {
      continue;
    }
    return true;
  }
  return false;
}

// Whether this single attempt goes wrong.
bool Broker::meets_attempt_fault(Fate& fate, Duration timeout, Random& random) const {
  const auto strikes = [&](Fault fault) {
    const bool chance = random.chance(scenario_.attempt_fault_share);
    return chance && faults_on_ && has(scenario_.faults, fault);
  };
  const Duration accepted_after = fate.accepted_after;
  const Duration answered_after = fate.answered_after;
  if (strikes(Fault::transport)) {
    fate = transport(answered_after, "500 Internal Server Error");
  } else if (strikes(Fault::accepted_unknown)) {
    fate = transport(answered_after, "connection reset");
    fate.accepted = true;
    fate.accepted_after = accepted_after;
    fate.outcome_unknown = true;
  } else if (strikes(Fault::answer_lost)) {
    fate = unanswered(timeout, true, accepted_after);
  } else if (strikes(Fault::conflict)) {
    fate = transport(answered_after, "409 Conflict");
    fate.outcome = Outcome::conflict;
  } else if (strikes(Fault::throttle)) {
    fate = transport(answered_after, "429 Too Many Requests");
    fate.outcome = Outcome::throttled;
    fate.wait = milliseconds{random.below(3000)};
  } else if (strikes(Fault::misconfigured)) {
    fate = transport(answered_after, "404 Not Found");
    fate.outcome = Outcome::misconfigured;
    fate.sent = random.chance(0.7);  // else a secret could not be read
  } else {
    return false;
  }
  return true;
}

void Broker::accept(const Attempt& attempt, std::uint64_t fingerprint) {
  ++accepted_[attempt.row];
  ++acceptances_;
  trace_.event(events_.now(), "broker", "accepted",
               {{"row", attempt.row}, {"attempt", attempt.number}});
  facts_.on_accepted(attempt, fingerprint, events_.now());
}

}  // namespace outbox::sim
