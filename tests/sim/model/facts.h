// What happens in the simulated world, told to the checks as it happens.
#pragma once

#include <cstddef>
#include <cstdint>

#include "relay/observer.h"
#include "relay/outbox_store.h"
#include "relay/publisher.h"
#include "tests/sim/model/row.h"

namespace outbox::sim {

enum class Ending { clean, crashed, gave_up };

enum class LeaseEnd {
  settled,
  released_by_retire,
  holder_dead,
  term_over,
  delivered_by_other,
  wiped,
};

struct Attempt {
  ProcessId process = 0;
  RowNumber row = 0;
  std::uint64_t number = 0;  // of this row, over all processes, from 1
};

// All times are the world's. Handlers do nothing unless a check cares.
class Facts {
 public:
  virtual ~Facts() = default;

  virtual void on_inserted(const Row&) {}
  virtual void on_redriven(const Row&) {}
  virtual void on_faults_end(Time) {}

  virtual void on_started(ProcessId, Time) {}
  virtual void on_ended(ProcessId, Ending, Time) {}
  virtual void on_drained(ProcessId, std::size_t /*leases_left*/, Time) {}
  // Something kept this process from renewing until then: a freeze, the database.
  virtual void on_disturbed(ProcessId, Time /*until*/) {}
  virtual void on_step(ProcessId, Time /*begin*/, Time /*end*/, Time /*next*/) {}
  virtual void on_stimulus(ProcessId, Time) {}  // a receipt or a hint

  virtual void on_turn_asked(ProcessId, const TurnRequest&, Time) {}
  // As the relay gets to see it.
  virtual void on_turn_told(ProcessId, const TurnRequest&, const Turn&, Time /*asked*/,
                            Time /*told*/) {}

  // In the table. `row` is as it is after the change.
  virtual void on_leased(const Row&, Time) {}
  virtual void on_lease_ended(const Row&, ProcessId /*holder*/, LeaseId, LeaseEnd, Time) {}
  virtual void on_renewed(ProcessId, Time /*until*/, Time) {}
  virtual void on_settled(const Row&, ProcessId, const Settlement&, Status /*before*/, Time) {}
  virtual void on_buried_by_store(const Row&, Time) {}

  virtual void on_submitted(ProcessId, const Publication&, RowNumber, Time) {}
  virtual void on_send(const Attempt&, const Publication&, Time) {}
  virtual void on_accepted(const Attempt&, std::uint64_t /*fingerprint*/, Time) {}
  virtual void on_receipt(const Attempt&, const Receipt&, Time) {}

  virtual void on_circuit(ProcessId, const CircuitChange&, Time) {}
  virtual void on_short_circuit(ProcessId, std::size_t /*messages*/, Time) {}
  // The relay has taken note of a confirmation.
  virtual void on_confirmed(ProcessId, RowNumber, const std::string& /*destination*/, Time) {}
  // What the observer was told, for metrics and the log.
  virtual void on_observed_end(ProcessId, Outcome, bool /*sent*/, Time) {}
  virtual void on_observed_burial(ProcessId, DeadReason, Time) {}
  virtual void on_observed_turn(ProcessId, const TurnReport&, std::size_t /*leases*/, Time) {}
  virtual void on_killed_by(const Row&, ProcessId, Time) {}
};

// Of all that must not change between attempts.
std::uint64_t fingerprint(const Row& row);
std::uint64_t fingerprint(const Message& message);

}  // namespace outbox::sim
