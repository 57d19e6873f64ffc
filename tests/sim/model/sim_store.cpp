#include "tests/sim/model/sim_store.h"

#include <algorithm>

#include "tests/sim/model/seeds.h"

namespace outbox::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

}  // namespace

SimStore::SimStore(Context& context, ProcessId process, ProcessClock& clock)
    : context_(context),
      process_(process),
      clock_(clock),
      random_(mix(context.scenario.seed, "store", process)) {}

Turn SimStore::failed(const char* error) const {
  Turn turn;
  turn.status = TurnStatus::failed;
  turn.error = error;
  return turn;
}

bool SimStore::strikes(Fault fault) {
  const bool chance = random_.chance(context_.scenario.turn_fault_share);
  return chance && context_.faults_on && has(context_.scenario.faults, fault);
}

bool SimStore::unusable(Time now) const {
  if (!context_.faults_on) return false;
  return std::any_of(context_.scenario.episodes.begin(), context_.scenario.episodes.end(),
                     [&](const Episode& episode) {
                       return episode.kind == Fault::store_unusable && episode.covers(now);
                     });
}

// Mostly short; now and then longer than a lease.
Duration SimStore::slowness() {
  if (random_.chance(0.9)) return milliseconds{random_.below(400)};
  const auto term = static_cast<std::uint64_t>(context_.scenario.relay.lease_term.count());
  return Duration{static_cast<Duration::rep>(random_.below(term + term / 2))};
}

Turn SimStore::turn(const TurnRequest& original) {
  if (cut_) return failed("the process is gone");
  const Time asked = clock_.world_now();
  const TurnRequest request = doctored(original);
  context_.facts.on_turn_asked(process_, request, asked);
  context_.trace.event(asked, "store", "turn",
                       {{"process", process_},
                        {"number", request.number},
                        {"settlements", request.settlements.size()},
                        {"renew", request.renew ? 1u : 0u},
                        {"limit", request.lease.limit},
                        {"retries", request.lease.retry_limit},
                        {"holding", request.lease.holding},
                        {"recovered", request.lease.recovered},
                        {"probe", request.lease.probe ? 1u : 0u}});
  for (const Settlement& settlement : request.settlements) {
    context_.trace.event(
        asked, "store", "verdict",
        {{"process", process_},
         {"row", row_number(settlement.row)},
         {"lease", settlement.lease},
         {"verdict", static_cast<std::uint64_t>(settlement.verdict)},
         {"kind", static_cast<std::uint64_t>(settlement.kind)},
         {"counts", settlement.counts ? 1u : 0u},
         {"delay_ms", static_cast<std::uint64_t>(settlement.delay / milliseconds{1})}},
        settlement.reason);
  }
  Turn turn = answer(request);
  if (turn.status != TurnStatus::committed) {
    context_.facts.on_disturbed(process_, clock_.world_now());
  }
  context_.trace.event(clock_.world_now(), "store", "answer",
                       {{"process", process_},
                        {"status", static_cast<std::uint64_t>(turn.status)},
                        {"epoch", turn.epoch},
                        {"leased", turn.leased.size()},
                        {"fenced", turn.fenced},
                        {"taken_over", turn.taken_over},
                        {"more", turn.more ? 1u : 0u},
                        {"solitude", turn.wants_solitude ? 1u : 0u},
                        {"lost", turn.leases_lost ? 1u : 0u}});
  const Duration rest = turn.rest;
  if (context_.scenario.bug == Bug::relay_ignores_rest) turn.rest = milliseconds{50};
  context_.facts.on_turn_told(process_, request, turn, asked, clock_.world_now());
  turn.rest = rest;
  return turn;
}

Turn SimStore::answer(const TurnRequest& request) {
  clock_.spend(microseconds{100 + random_.below(900)});
  if (unusable(clock_.world_now())) {
    Turn turn = failed("the file is read-only");
    turn.status = TurnStatus::unusable;
    return turn;
  }
  if (strikes(Fault::store_busy)) {
    Turn turn = failed("");
    turn.status = TurnStatus::busy;
    turn.rest = milliseconds{random_.below(20)};
    return turn;
  }
  if (strikes(Fault::store_failed)) return failed("disk I/O error");
  if (strikes(Fault::store_partial) && request.settlements.size() > 1) {
    const std::size_t part = 1 + random_.below(request.settlements.size() - 1);
    context_.table.settle_part(process_, request.settlements.first(part), clock_.world_now());
    return failed("disk full in the second part");
  }

  const Time applied = clock_.world_now();
  Turn turn = context_.table.turn(process_, request, applied);
  for (const Message& message : turn.leased) {
    context_.trace.event(applied, "store", "leased",
                         {{"process", process_}, {"row", row_number(message.row)}});
  }
  if (strikes(Fault::store_slow)) {
    clock_.spend(slowness());
    context_.facts.on_disturbed(process_, clock_.world_now());
  }
  if (strikes(Fault::store_answer_lost)) return failed("connection lost during commit");
  if (random_.chance(0.1)) turn.rest = milliseconds{random_.below(10)};
  return turn;
}

void SimStore::retire() {
  if (cut_ || strikes(Fault::store_failed)) return;
  context_.table.retire(process_, clock_.world_now());
}

// How the request of a relay with a certain bug would look.
TurnRequest SimStore::doctored(const TurnRequest& original) {
  TurnRequest request = original;
  switch (context_.scenario.bug) {
    case Bug::relay_never_renews:
      request.renew = false;
      break;
    case Bug::relay_overfills:
      request.lease.limit *= 2;
      break;
    case Bug::relay_hides_holding:
      request.lease.holding = 0;
      break;
    case Bug::relay_changes_repeat:
      request.number = ++doctored_number_;
      break;
    case Bug::relay_marks_before_answer:
    case Bug::relay_drops_verdict:
    case Bug::relay_counts_everything:
    case Bug::relay_releases_failures:
      doctored_.assign(original.settlements.begin(), original.settlements.end());
      for (Settlement& settlement : doctored_) {
        if (settlement.verdict != Verdict::retry) continue;
        if (context_.scenario.bug == Bug::relay_marks_before_answer) {
          settlement.verdict = Verdict::delivered;
        }
        if (context_.scenario.bug == Bug::relay_counts_everything) settlement.counts = true;
        if (context_.scenario.bug == Bug::relay_releases_failures) {
          settlement.verdict = Verdict::released;
        }
      }
      if (context_.scenario.bug == Bug::relay_drops_verdict && !doctored_.empty() &&
          original.number % 3 == 0) {
        doctored_.pop_back();
      }
      request.settlements = doctored_;
      break;
    case Bug::none:
    case Bug::store_without_fencing:
    case Bug::store_leases_leased_rows:
    case Bug::store_ignores_order:
    case Bug::store_forgets_delivered:
    case Bug::store_steals_early:
    case Bug::broker_forgets_accepted:
    case Bug::publisher_alters_payload:
    case Bug::publisher_repeats_itself:
    case Bug::publisher_ignores_start_by:
    case Bug::relay_ignores_rest:
    case Bug::count_:
      break;
  }
  return request;
}

}  // namespace outbox::sim
