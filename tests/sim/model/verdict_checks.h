// Checks of what a relay says about its rows: every verdict has its ground, failures are charged
// once, only what may count leads to death, and nobody innocent is buried (P9, P10, P12).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>

#include "tests/sim/model/court.h"
#include "tests/sim/model/scenario.h"

namespace outbox::sim {

class VerdictChecks final : public Facts {
 public:
  VerdictChecks(const Scenario& scenario, Court& court) : scenario_(scenario), court_(court) {}

  void on_inserted(const Row& row) override { rows_[row.number].kind = row.kind; }
  void on_redriven(const Row& row) override;
  void on_ended(ProcessId process, Ending how, Time now) override;
  void on_drained(ProcessId process, std::size_t left, Time now) override;
  void on_turn_told(ProcessId process, const TurnRequest& request, const Turn& turn, Time asked,
                    Time told) override;
  void on_leased(const Row& row, Time now) override;
  void on_lease_ended(const Row& row, ProcessId holder, LeaseId lease, LeaseEnd how,
                      Time now) override;
  void on_buried_by_store(const Row& row, Time now) override;
  void on_submitted(ProcessId process, const Publication& publication, RowNumber row,
                    Time now) override;
  void on_receipt(const Attempt& attempt, const Receipt& receipt, Time now) override;
  void on_circuit(ProcessId process, const CircuitChange& change, Time now) override;
  void on_short_circuit(ProcessId process, std::size_t messages, Time now) override;
  void on_confirmed(ProcessId process, RowNumber row, const std::string& destination,
                    Time now) override;
  void on_killed_by(const Row& row, ProcessId process, Time now) override;

 private:
  using Lease = std::tuple<ProcessId, RowNumber, LeaseId>;
  struct Held {
    RowHistory history;
    RowKind kind = RowKind::plain;  // a redrive may change it
    std::uint64_t payload_size = 0;
    bool defect = false;
    std::string destination;
    std::optional<Time> last_attempt;
    Ticket ticket = 0;
    bool travelling = false;
    bool void_ = false;  // the relay was told that its leases are lost
    std::optional<Receipt> receipt;
    Time answered{};
  };
  struct Subject {
    RowKind kind = RowKind::plain;
    std::uint32_t kills = 0;
    std::uint32_t deaths_alone = 0;  // of relays that held only this row
  };
  struct Confirmed {
    Time when{};
    RowNumber row = 0;
    Time by_another{};  // the last one of a row other than `row`
  };

  void take_on(const Lease& lease, Held held);
  void judge(ProcessId process, const Settlement& settlement, Time now);
  std::string wrong_with(ProcessId process, const Settlement& settlement, const Held& held) const;
  std::string wrong_with_retry(const Settlement& settlement, const Held& held) const;
  std::string wrong_with_death(const Settlement& settlement, const Held& held) const;
  std::string wrong_with_count(ProcessId process, const Settlement& settlement,
                               const Held& held) const;

  const Scenario& scenario_;
  Court& court_;
  std::map<Lease, Held> held_;
  std::map<std::pair<ProcessId, Ticket>, Lease> tickets_;
  std::unordered_map<RowNumber, Subject> rows_;
  std::map<ProcessId, RowNumber> alone_;
  std::map<ProcessId, std::uint64_t> turned_away_;  // as told to the observer
  std::map<ProcessId, std::uint64_t> charged_unsent_;
  std::map<ProcessId, Time> circuit_left_closed_;
  std::map<std::pair<ProcessId, std::string>, Confirmed> confirmed_;
};

}  // namespace outbox::sim
