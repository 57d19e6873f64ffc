// The seam to the database that holds the outbox.
//
// The relay speaks to it in turns. A turn is one transaction: it settles all that was learned since
// the last one, renews the relay's leases and leases the next batch. Only durations cross the seam;
// the store turns them into times by the database's clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "relay/clock.h"
#include "relay/message.h"

namespace outbox {

// All that can be said about a leased row.
enum class Verdict {
  delivered,  // the broker confirmed it: Processed
  retry,      // Failed, due again after `delay`
  dead,       // DeadLettered with `dead_reason`
  released,   // given back untouched: Pending or Failed as before, due as before
  held,       // Failed without being charged, due again after `delay`
};

struct Settlement {
  RowId row;
  LeaseId lease = 0;
  std::uint32_t generation = 0;
  Verdict verdict = Verdict::released;

  Duration delay{0};                               // retry, held
  FailureKind kind = FailureKind::none;            // retry, held, dead
  DeadReason dead_reason = DeadReason::permanent;  // dead
  std::string reason;               // retry, held, dead: becomes last_error, <= 1 KiB
  std::uint32_t charge = 0;         // added to retry_count
  bool counts = false;              // adds 1 to the count that leads to death
  bool attempted = false;           // was put on the wire: restarts since_last_attempt
  bool outcome_unknown = false;     // the broker may have accepted it all the same
  bool waits_for_recovery = false;  // becomes due at once when the broker is back
};

enum class Ordering { none, key };

struct LeaseRequest {
  std::size_t limit = 0;          // rows; 0 leases nothing
  std::size_t retry_limit = 0;    // of them Failed ones, while Pending ones wait (work-conserving)
  std::uint64_t bytes = 0;        // payload bytes of all rows together; the first row always fits
  std::uint64_t payload_max = 0;  // a larger payload is not loaded, only its size is told
  Duration term{0};
  std::size_t holding = 0;  // rows that this relay holds now; a row that must be alone needs 0

  // Failed rows that wait for recovery and were settled in this turn or an earlier one are due now.
  LeaseId recovered = 0;
  // One row to try the broker with: when no other is due, a row that waits for recovery will do.
  // While a shared verdict stands, such a turn leases only for the one relay that may probe, and
  // keeps that place for it for `probe_term`; with a limit of 0 it asks for the place alone.
  bool probe = false;
  Duration probe_term{0};

  Ordering ordering = Ordering::none;
  bool dead_blocks_key = true;  // with Ordering::key: a dead letter holds back the rows behind it
};

// What a relay tells the others of its circuit (behaviour: "verdicts are shared").
struct CircuitNews {
  enum class Kind {
    opened,  // for `open_for`; also when a probe has failed
    closed,  // its own probe has found the broker well
  };
  Kind kind = Kind::opened;
  Duration open_for{0};
  std::string reason;         // opened: why, for people
  std::uint64_t verdict = 0;  // of a probe: the verdict that it was sent under
};

// What the relays of an outbox say together of one broker's circuit.
struct SharedVerdict {
  std::uint64_t number = 0;  // open: another one with each change
  bool open = false;
  Duration wait{
      0};  // open: until this relay may probe, since the break lasts or another one probes
};

struct TurnRequest {
  std::uint64_t number = 0;  // rises by one a turn; the same again repeats a turn that failed
  std::span<const Settlement> settlements;
  bool renew = false;  // extend this relay's leases even if there is nothing else to write
  LeaseRequest lease;
  // For the other relays of this outbox and broker.
  std::optional<CircuitNews> circuit = std::nullopt;
};

enum class TurnStatus {
  committed,
  busy,      // not begun, another writer is at work: ask again after `rest`
  failed,    // may have been applied or not: repeat it with the same number
  unusable,  // the database is not what it should be (`error` says why): nothing held may be sent
};

// A row the store itself had to bury (it took relays down with it: DeadReason::crashed).
struct BuriedRow {
  std::string id;
  std::string event_type;
  std::uint32_t attempts = 0;
  std::string error;
};

struct Turn {
  TurnStatus status = TurnStatus::failed;
  std::string error;  // for people: what, where, what to do; empty when committed

  LeaseId epoch = 0;           // of this turn; 0 if it wrote nothing
  bool renewed = false;        // the relay's leases now last `term` from before the call
  std::size_t fenced = 0;      // settlements that came too late and changed nothing
  std::size_t isolated = 0;    // settlements whose row could not be written: kept beside it
  std::string isolated_error;  // the first of those errors
  std::size_t taken_over = 0;  // leases of dead or expired relays that were ended
  std::vector<BuriedRow> buried;

  std::vector<Message> leased;       // in the order of the table
  bool more = false;                 // rows are due that this turn did not lease
  bool wants_solitude = false;       // the next row must be leased alone: hold nothing first
  std::optional<Duration> next_due;  // until the earliest Failed row is due, if any waits
  Duration rest{0};          // leave the database alone for this long (the application's turn)
  bool leases_lost = false;  // all leases of this relay are void (database replaced)
  // An operator has isolated the broker's circuit (OutboxDesk::hold_circuit): hold it open. Read in
  // every turn, so that it survives a restart of the relay; such a turn leases nothing.
  bool circuit_held = false;
  std::string why_held;  // the reason that the operator gave, if any
  // After `circuit` and `lease` were seen to; none where this store shares no verdicts.
  std::optional<SharedVerdict> verdict;
  // An operator has paused the relays of this outbox (OutboxDesk::pause). Read and kept likewise.
  bool paused = false;
};

// Implemented by a database adapter; called by the relay's thread only. Nothing throws.
//
// What a store promises:
//  - A turn is atomic and durable: what it leased is on disk before it returns, and so is every
//    commit of the application that came before (promise P2).
//  - A row is leased to one relay at a time. Retry, dead, released and held change a row only while
//    it is leased under the settlement's lease; otherwise they change nothing and count as
//    `fenced`. Delivered also ends a Pending or Failed row of the same generation whose lease was
//    lost.
//  - Repeating a turn with the number of the last one changes nothing if that one was applied, and
//    returns the rows it leased; otherwise it runs as it was. A turn that fails leases nothing.
//  - A settlement that only its own row refuses (a constraint, a trigger) spoils nobody else's.
//  - A turn with nothing to settle, renew, tell or lease writes nothing.
//  - One verdict on a circuit stands at a time. It is opened by the first relay that tells so, is
//    followed by another one when its probe has failed, and ends when a relay that probed under it
//    tells so. One relay at a time may probe; a place that is kept for one that died runs out.
//  - With Ordering::key, a row is leased only together with or after all undecided rows of its key
//    that precede it.
class OutboxStore {
 public:
  virtual ~OutboxStore() = default;

  virtual Turn turn(const TurnRequest& request) = 0;

  // Ends this relay's identity after its last turn: leases left are released, its mark is removed.
  // Best effort; what it could not do ends with the lease term.
  virtual void retire() = 0;
};

}  // namespace outbox
