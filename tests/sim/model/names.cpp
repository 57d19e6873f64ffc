#include "tests/sim/model/scenario.h"

namespace outbox::sim {

const char* name_of(Fault fault) {
  switch (fault) {
    case Fault::crash:
      return "crash";
    case Fault::freeze:
      return "freeze";
    case Fault::drain:
      return "drain";
    case Fault::hint_lost:
      return "hint_lost";
    case Fault::lock_unknown:
      return "lock_unknown";
    case Fault::store_busy:
      return "store_busy";
    case Fault::store_failed:
      return "store_failed";
    case Fault::store_answer_lost:
      return "store_answer_lost";
    case Fault::store_partial:
      return "store_partial";
    case Fault::store_slow:
      return "store_slow";
    case Fault::store_unusable:
      return "store_unusable";
    case Fault::trigger:
      return "trigger";
    case Fault::slow:
      return "slow";
    case Fault::transport:
      return "transport";
    case Fault::accepted_unknown:
      return "accepted_unknown";
    case Fault::answer_lost:
      return "answer_lost";
    case Fault::connection_loss:
      return "connection_loss";
    case Fault::conflict:
      return "conflict";
    case Fault::throttle:
      return "throttle";
    case Fault::misconfigured:
      return "misconfigured";
    case Fault::dead_destination:
      return "dead_destination";
    case Fault::brownout:
      return "brownout";
    case Fault::refused_connections:
      return "refused_connections";
    case Fault::black_hole:
      return "black_hole";
    case Fault::short_queue:
      return "short_queue";
    case Fault::poison:
      return "poison";
    case Fault::oversized:
      return "oversized";
    case Fault::defect:
      return "defect";
    case Fault::killer:
      return "killer";
    case Fault::future:
      return "future";
    case Fault::redrive:
      return "redrive";
    case Fault::isolate:
      return "isolate";
    case Fault::unfit:
      return "unfit";
    case Fault::leases_wiped:
      return "leases_wiped";
    case Fault::count_:
      break;
  }
  return "?";
}

const char* name_of(Bug bug) {
  switch (bug) {
    case Bug::none:
      return "none";
    case Bug::store_without_fencing:
      return "store_without_fencing";
    case Bug::store_leases_leased_rows:
      return "store_leases_leased_rows";
    case Bug::store_ignores_order:
      return "store_ignores_order";
    case Bug::store_forgets_delivered:
      return "store_forgets_delivered";
    case Bug::store_steals_early:
      return "store_steals_early";
    case Bug::broker_forgets_accepted:
      return "broker_forgets_accepted";
    case Bug::publisher_alters_payload:
      return "publisher_alters_payload";
    case Bug::publisher_repeats_itself:
      return "publisher_repeats_itself";
    case Bug::publisher_ignores_start_by:
      return "publisher_ignores_start_by";
    case Bug::relay_marks_before_answer:
      return "relay_marks_before_answer";
    case Bug::relay_drops_verdict:
      return "relay_drops_verdict";
    case Bug::relay_never_renews:
      return "relay_never_renews";
    case Bug::relay_counts_everything:
      return "relay_counts_everything";
    case Bug::relay_releases_failures:
      return "relay_releases_failures";
    case Bug::relay_overfills:
      return "relay_overfills";
    case Bug::relay_changes_repeat:
      return "relay_changes_repeat";
    case Bug::relay_ignores_rest:
      return "relay_ignores_rest";
    case Bug::relay_hides_holding:
      return "relay_hides_holding";
    case Bug::count_:
      break;
  }
  return "?";
}

}  // namespace outbox::sim
