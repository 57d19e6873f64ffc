// Checks of what the broker gets: loss, order, duplicates, identity (P1, P3, P4, P5).
#pragma once

#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/sim/model/court.h"
#include "tests/sim/model/scenario.h"

namespace outbox::sim {

class DeliveryChecks final : public Facts {
 public:
  DeliveryChecks(const Scenario& scenario, Court& court) : scenario_(scenario), court_(court) {}

  void on_inserted(const Row& row) override;
  void on_redriven(const Row& row) override;
  void on_ended(ProcessId process, Ending how, Time now) override;
  void on_leased(const Row& row, Time now) override;
  void on_lease_ended(const Row& row, ProcessId holder, LeaseId lease, LeaseEnd how,
                      Time now) override;
  void on_settled(const Row& row, ProcessId process, const Settlement& settlement, Status before,
                  Time now) override;
  void on_buried_by_store(const Row& row, Time now) override;
  void on_submitted(ProcessId process, const Publication& publication, RowNumber row,
                    Time now) override;
  void on_send(const Attempt& attempt, const Publication& publication, Time now) override;
  void on_accepted(const Attempt& attempt, std::uint64_t print, Time now) override;
  void on_receipt(const Attempt& attempt, const Receipt& receipt, Time now) override;

 private:
  struct Sent {
    ProcessId process = 0;
    std::uint64_t number = 0;
    std::uint32_t generation = 0;
    bool accepted = false;
    bool explained = false;  // a repeat of it has a recorded cause
    bool unheld = false;     // it was sent without a lease, which is judged elsewhere
  };
  struct Story {
    std::optional<std::string> key;
    std::uint64_t print = 0;
    std::uint32_t generation = 0;
    bool accepted = false;
    bool ever_dead = false;
    bool passed = false;  // a later row of its key was accepted first: it has to die
    ProcessId holder = 0;
    LeaseId lease = 0;
    std::vector<Sent> sent;
  };

  void check_order(RowNumber row, const Story& story, Time now);
  void check_passed(RowNumber row, const Story& story, Time now);
  void check_repeat(RowNumber row, Story& story, const Attempt& attempt, Time now);

  const Scenario& scenario_;
  Court& court_;
  std::unordered_map<RowNumber, Story> stories_;
  std::unordered_map<std::string, std::vector<RowNumber>> keys_;
  std::set<ProcessId> died_;
  std::map<std::pair<ProcessId, std::string>, std::set<RowNumber>> under_way_;
};

}  // namespace outbox::sim
