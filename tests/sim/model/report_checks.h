// Checks that what a relay reports, for metrics and the log, is what happened.
#pragma once

#include <array>
#include <map>

#include "tests/sim/model/court.h"

namespace outbox::sim {

class ReportChecks final : public Facts {
 public:
  explicit ReportChecks(Court& court) : court_(court) {}

  void on_drained(ProcessId process, std::size_t left, Time now) override;
  void on_turn_told(ProcessId process, const TurnRequest& request, const Turn& turn, Time asked,
                    Time told) override;
  void on_lease_ended(const Row& row, ProcessId holder, LeaseId lease, LeaseEnd how,
                      Time now) override;
  void on_receipt(const Attempt& attempt, const Receipt& receipt, Time now) override;
  void on_observed_end(ProcessId process, Outcome outcome, bool sent, Time now) override;
  void on_observed_burial(ProcessId process, DeadReason reason, Time now) override;
  void on_observed_turn(ProcessId process, const TurnReport& report, std::size_t leases,
                        Time now) override;

 private:
  static constexpr std::size_t kOutcomes = 7;
  static constexpr std::size_t kReasons = 6;
  struct Count {
    std::array<std::uint64_t, kOutcomes> ended{};  // by outcome, cancelled ones apart
    std::array<std::uint64_t, kReasons> buried{};
    std::uint64_t sent = 0;
    bool operator==(const Count&) const = default;
  };
  struct Account {
    Count happened;
    Count reported;
    bool knows_its_leases = true;  // none was ended by others
  };

  Court& court_;
  std::map<ProcessId, Account> accounts_;
};

}  // namespace outbox::sim
