// The outbox in memory, with the rules of relay/outbox_store.h and no fault of its own.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "relay/outbox_store.h"
#include "tests/sim/model/facts.h"
#include "tests/sim/model/joint_circuit.h"
#include "tests/sim/model/row.h"
#include "tests/sim/model/scenario.h"

namespace outbox::sim {

// One relay's identity at the table.
struct Incarnation {
  Time until{};               // the end of its leases
  bool lock_held = true;      // its liveness lock: lost when the process dies
  bool leases_ended = false;  // somebody took its leases over; it has not been told yet
  std::uint64_t last_number = 0;
  LeaseId last_epoch = 0;
  bool last_told_lost = false;
  std::vector<RowNumber> last_leased;
  // Settled ahead of the turn under way, which was given up in between.
  std::set<std::pair<RowNumber, LeaseId>> settled_ahead;
};

class Table {
 public:
  Table(const Scenario& scenario, Facts& facts) : scenario_(scenario), facts_(facts) {}

  void insert(Row row);
  // Moves a dead letter back to Pending. `mended`: the broker will take it this time.
  void redrive(RowNumber number, bool mended);

  // By an operator: the broker's circuit is isolated, and rows are not leased.
  void hold_circuit(bool hold) {
    circuit_held_ = hold;
    if (!hold) circuit_.close();
  }
  // By an operator: rows are not leased.
  void pause(bool paused) { paused_ = paused; }

  Turn turn(ProcessId who, const TurnRequest& request, Time now);
  // A turn with much to settle may be written in parts: these are, and the rest is not.
  void settle_part(ProcessId who, std::span<const Settlement> part, Time now);
  void retire(ProcessId who, Time now);
  // Nobody holds anything any more, and nobody has been told.
  void wipe_leases(Time now);
  void process_died(ProcessId who);

  const std::map<RowNumber, Row>& rows() const { return rows_; }
  const Row& row(RowNumber number) const { return rows_.at(number); }
  std::size_t leases_of(ProcessId who) const;
  // Not processed, in the table's order: what is left to look at.
  const std::set<RowNumber>& unfinished() const { return unfinished_; }
  bool is_due(const Row& row, LeaseId recovered, Time now) const;

 private:
  friend class LeaseChoice;

  void share(ProcessId who, Turn& turn, Time now) const;
  Turn repeat(Incarnation& incarnation, ProcessId who, const TurnRequest& request, Time now);
  bool settle(ProcessId who, const Settlement& settlement, LeaseId epoch, Turn& turn, Time now);
  void apply(Row& row, const Settlement& settlement, LeaseId epoch, Time now);
  std::size_t take_over(ProcessId who, Turn& turn, Time now);
  void take_over_row(Row& row, LeaseEnd how, Turn& turn, Time now);
  void end_lease(Row& row, LeaseEnd how, Time now);
  Message message_of(const Row& row, const LeaseRequest& request, Time now) const;
  void lease(Row& row, ProcessId who, LeaseId epoch, bool alone, Time now);

  const Scenario& scenario_;
  Facts& facts_;
  std::map<RowNumber, Row> rows_;
  std::set<RowNumber> unfinished_;
  std::map<ProcessId, Incarnation> incarnations_;
  LeaseId epoch_ = 0;
  JointCircuit circuit_;
  bool circuit_held_ = false;
  bool paused_ = false;
};

}  // namespace outbox::sim
