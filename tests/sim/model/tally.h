// What happened in a run, in numbers: for the tests' own questions and for the command line.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <vector>

#include "tests/sim/model/facts.h"

namespace outbox::sim {

class Tally final : public Facts {
 public:
  struct Death {
    RowNumber row = 0;
    DeadReason reason = DeadReason::permanent;
    Time when{};
  };
  struct Failure {
    RowNumber row = 0;
    FailureKind kind = FailureKind::none;
    Duration delay{0};
    bool counts = false;
    Time when{};
  };

  std::uint64_t rows = 0;
  std::uint64_t sends = 0;
  std::uint64_t acceptances = 0;
  std::uint64_t repeats = 0;
  std::uint64_t charges = 0;          // added to retry_count, by settlements that were applied
  std::uint64_t failed_receipts = 0;  // of attempts on the wire, of kinds that are charged
  std::uint64_t turned_away = 0;
  std::uint64_t openings = 0;
  std::uint64_t crashes = 0;
  std::uint64_t kills = 0;
  std::uint64_t steps = 0;
  std::uint64_t turns = 0;
  std::uint64_t takeovers = 0;
  std::uint64_t redrives = 0;
  std::vector<Time> send_times;
  std::vector<Death> deaths;
  std::vector<Failure> failures;
  std::map<RowNumber, Time> inserted_at;
  std::map<RowNumber, Time> accepted_at;  // first
  std::map<RowNumber, std::vector<Time>> sends_of;

  std::uint64_t dead(DeadReason reason) const;
  Time last_first_acceptance() const;
  std::optional<Time> first_acceptance_after(Time when) const;

  void on_inserted(const Row& row) override;
  void on_redriven(const Row&) override { ++redrives; }
  void on_ended(ProcessId, Ending how, Time) override { crashes += how == Ending::crashed ? 1 : 0; }
  void on_step(ProcessId, Time, Time, Time) override { ++steps; }
  void on_turn_asked(ProcessId, const TurnRequest&, Time) override { ++turns; }
  void on_lease_ended(const Row& row, ProcessId holder, LeaseId lease, LeaseEnd how,
                      Time now) override;
  void on_settled(const Row& row, ProcessId process, const Settlement& settlement, Status before,
                  Time now) override;
  void on_buried_by_store(const Row& row, Time now) override;
  void on_send(const Attempt& attempt, const Publication& publication, Time now) override;
  void on_accepted(const Attempt& attempt, std::uint64_t print, Time now) override;
  void on_receipt(const Attempt& attempt, const Receipt& receipt, Time now) override;
  void on_circuit(ProcessId process, const CircuitChange& change, Time now) override;
  void on_short_circuit(ProcessId, std::size_t messages, Time) override { turned_away += messages; }
  void on_killed_by(const Row&, ProcessId, Time) override { ++kills; }
};

}  // namespace outbox::sim
