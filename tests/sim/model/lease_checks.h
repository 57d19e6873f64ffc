// Checks of leases: one holder, trust, fencing, turns and the window's bounds (P6, P7, P8, P12).
#pragma once

#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "tests/sim/model/court.h"
#include "tests/sim/model/scenario.h"

namespace outbox::sim {

// Keeps its own account of who holds what, apart from the table's.
class LeaseChecks final : public Facts {
 public:
  LeaseChecks(const Scenario& scenario, Court& court) : scenario_(scenario), court_(court) {}

  void on_ended(ProcessId process, Ending how, Time now) override;
  void on_drained(ProcessId process, std::size_t left, Time now) override;
  void on_disturbed(ProcessId process, Time until) override;
  void on_turn_asked(ProcessId process, const TurnRequest& request, Time now) override;
  void on_turn_told(ProcessId process, const TurnRequest& request, const Turn& turn, Time asked,
                    Time told) override;
  void on_leased(const Row& row, Time now) override;
  void on_lease_ended(const Row& row, ProcessId holder, LeaseId lease, LeaseEnd how,
                      Time now) override;
  void on_receipt(const Attempt& attempt, const Receipt& receipt, Time now) override;
  void on_renewed(ProcessId process, Time until, Time now) override;
  void on_settled(const Row& row, ProcessId process, const Settlement& settlement, Status before,
                  Time now) override;
  void on_submitted(ProcessId process, const Publication& publication, RowNumber row,
                    Time now) override;
  void on_send(const Attempt& attempt, const Publication& publication, Time now) override;

 private:
  struct Holding {
    ProcessId holder = 0;
    LeaseId lease = 0;
    LeaseId highest = 0;
    std::uint64_t bytes = 0;
  };
  struct Known {
    bool ended = false;
    Time until{};  // by the table
    Time renewed_at{};
    Time disturbed_until{};
    Time trust_from{};  // when the last turn that renewed was asked for
    Time rest_until{};
    std::uint64_t number = 0;
    bool repeats = false;  // the outcome of the last turn is unknown
    bool unusable = false;
    std::vector<Settlement> settlements;
    // Leases that ended without its knowing: another holder had delivered the row, or, until it is
    // told so, the database forgot who holds what.
    std::set<std::pair<RowNumber, LeaseId>> delivered_away;
    std::set<std::pair<RowNumber, LeaseId>> wiped;
    std::size_t leases = 0;
    std::uint64_t bytes = 0;
  };

  void check_number(Known& known, ProcessId process, const TurnRequest& request, Time now);

  const Scenario& scenario_;
  Court& court_;
  std::unordered_map<RowNumber, Holding> rows_;
  std::map<ProcessId, Known> processes_;
};

}  // namespace outbox::sim
