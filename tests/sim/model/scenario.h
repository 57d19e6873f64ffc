// What happens in one run: the relay's options, how many of everything, and which faults.
#pragma once

#include <bitset>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "relay/relay.h"
#include "tests/sim/model/row.h"

namespace outbox::sim {

enum class Fault {
  crash,         // a relay process vanishes
  freeze,        // a relay process stops and goes on later
  drain,         // a relay process is asked to stop
  hint_lost,     // commits are not announced
  lock_unknown,  // nobody can tell that a process is dead: its lease must run out
  store_busy,
  store_failed,       // before anything was applied
  store_answer_lost,  // after it was
  store_partial,      // after some of its settlements were
  store_slow,
  store_unusable,
  trigger,           // rows that refuse to be written
  slow,              // the broker answers late, or too late
  transport,         // an attempt fails before the broker has accepted anything
  accepted_unknown,  // the connection ends after the broker has accepted
  answer_lost,       // the broker accepts and never answers
  connection_loss,   // all that travels on one connection ends with one incident
  conflict,
  throttle,
  misconfigured,  // everywhere or at one destination, for a while
  dead_destination,
  brownout,  // few attempts succeed
  refused_connections,
  black_hole,
  short_queue,  // the publisher takes less than it is offered
  poison,       // rows the broker refuses
  unfit,        // rows the publisher refuses before anything is sent
  oversized,
  defect,
  killer,  // rows that take the process down
  future,  // rows with a far not_before
  redrive,
  isolate,
  leases_wiped,  // the database forgets who holds what
  count_         // how many there are
};

using Faults = std::bitset<static_cast<std::size_t>(Fault::count_)>;

inline bool has(const Faults& faults, Fault fault) {
  return faults.test(static_cast<std::size_t>(fault));
}
inline void set(Faults& faults, Fault fault) { faults.set(static_cast<std::size_t>(fault)); }
const char* name_of(Fault fault);

// A fault of the broker or the database that lasts.
struct Episode {
  Fault kind = Fault::refused_connections;
  Time start{};
  Duration length{};
  std::optional<std::size_t> destination;  // absent: all of them
  double share = 1;                        // of the attempts
  Duration wait{};                         // what a throttling broker asks for
  bool covers(Time now) const { return now >= start && now < start + length; }
};

// Seeded bugs: in the model, or as a relay with that bug would look from the outside. The checks
// must see each of them.
enum class Bug {
  none,
  store_without_fencing,  // stale verdicts change rows
  store_leases_leased_rows,
  store_ignores_order,  // a follower is leased while the row before it waits
  store_forgets_delivered,
  store_steals_early,       // a live relay's leases are taken before their end
  broker_forgets_accepted,  // confirms what it never took
  publisher_alters_payload,
  publisher_repeats_itself,  // sends twice by itself
  publisher_ignores_start_by,
  relay_marks_before_answer,  // failures are settled as delivered
  relay_drops_verdict,        // a settlement never reaches the store
  relay_never_renews,
  relay_counts_everything,  // the outage guard is blind
  relay_releases_failures,  // failed attempts go uncharged
  relay_overfills,          // leases more than the window
  relay_changes_repeat,     // repeats a turn with another number
  relay_ignores_rest,
  relay_hides_holding,  // says that it holds nothing
  count_
};

const char* name_of(Bug bug);

struct Scenario {
  std::uint64_t seed = 1;
  std::string profile = "calm";
  RelayOptions relay;
  Faults faults;
  std::vector<Episode> episodes;
  Bug bug = Bug::none;
  bool trace = false;
  std::set<std::string> muted;  // invariants whose violations are known

  std::size_t relays = 1;
  std::size_t survivors = 1;  // relays that live when the faults have stopped
  std::size_t rows = 100;
  std::size_t keys = 0;  // 0: no row has a key
  std::size_t destinations = 1;
  std::size_t transaction_rows = 3;  // at most
  double poison_share = 0.03;
  double killer_share = 0.01;
  // Rows of a kind of their own, by their number in the table, beside what the faults draw.
  std::map<std::uint64_t, RowKind> special_rows;
  Duration first_row{0};                 // when the writer starts
  Duration safety{60'000'000'000};       // how long faults last, and the writer writes
  std::optional<Duration> settle_bound;  // then all must be at rest; absent: from the options

  std::size_t connections = 8;
  std::size_t queue_max = 256;
  Duration broker_latency = std::chrono::milliseconds{10};
  double attempt_fault_share = 0.03;  // of the attempts, per kind
  double turn_fault_share = 0.02;     // of the turns, per kind
  Duration crash_gap = std::chrono::seconds{30};
  Duration freeze_gap = std::chrono::seconds{40};
  Duration drain_gap = std::chrono::seconds{50};
  Duration drain_timeout = std::chrono::seconds{20};
  std::int64_t drift_ppm_max = 200;
  double retune_share = 0;        // of the steps, before which the relay gets other settings
  bool extends_prefix = false;    // a row may be leased while its holder still has those before it
  bool lost_turn_leases = false;  // a turn that tells of lost leases leases rows of its own
  bool shared_verdicts = true;    // of relays that suspend while the circuit is open
  bool repeat_tells_renewed = false;  // a repeated turn extends the leases, and says so
};

// Throws std::invalid_argument for an unknown profile.
Scenario draw(std::uint64_t seed, const std::string& profile);
std::vector<std::string> profiles();

// The options of `profile: adr-087`.
RelayOptions record_options();

// After this long without faults every row is decided, by the options alone.
Duration settle_bound(const Scenario& scenario);

}  // namespace outbox::sim
