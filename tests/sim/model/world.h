// One simulated world: runs a scenario from the first row until everything is at rest.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "relay/random.h"
#include "tests/sim/model/context.h"
#include "tests/sim/model/court.h"
#include "tests/sim/model/delivery_checks.h"
#include "tests/sim/model/lease_checks.h"
#include "tests/sim/model/pace_checks.h"
#include "tests/sim/model/process.h"
#include "tests/sim/model/report_checks.h"
#include "tests/sim/model/tally.h"
#include "tests/sim/model/verdict_checks.h"
#include "tests/sim/model/writer.h"

namespace outbox::sim {

struct Report {
  std::optional<Violation> violation;
  std::uint64_t hash = 0;
  std::uint64_t events = 0;
  Duration lasted{0};
  Time faults_ended{};
  Duration to_rest{0};  // from the end of the faults
};

class World {
 public:
  explicit World(const Scenario& scenario);
  ~World();

  Report run();

  const Tally& tally() const { return tally_; }
  const Table& table() const { return table_; }
  // For scenarios of their own: something that happens at a certain time.
  void at(Time when, std::function<void()> act) { events_.at(when, std::move(act)); }
  Process* relay(std::size_t slot) { return slots_[slot].process.get(); }
  void start_relay(std::size_t slot);
  void end_relay(std::size_t slot, Ending how);
  void end_relay_for_good(std::size_t slot, Ending how);
  void revive(std::size_t slot);
  void freeze(std::size_t slot, Duration length);
  Time now() const { return events_.now(); }

 private:
  struct Slot {
    std::unique_ptr<Process> process;
    bool stays_down = false;
  };

  void run_until(Time end);
  void reap();
  void plan_chaos(std::size_t slot, Fault fault, Duration gap);
  void strike(std::size_t slot, Fault fault);
  void plan_operator();
  void operate();
  void end_faults();
  bool at_rest() const;
  std::string unrest() const;
  // The first row that is not decided and does not have to wait: for its not_before, at least
  // `ahead` from now, or for a destination that is held.
  const Row* unsettled_row(Duration ahead, bool may_be_held) const;
  bool held_for_good(const Row& row) const;
  void settle();
  void idle();
  void finish();

  const Scenario scenario_;
  EventQueue events_;
  Trace trace_;
  Court court_;
  LeaseChecks lease_checks_;
  DeliveryChecks delivery_checks_;
  VerdictChecks verdict_checks_;
  PaceChecks pace_checks_;
  ReportChecks report_checks_{court_};
  Tally tally_;
  Table table_;
  Broker broker_;
  Context context_;
  Writer writer_;
  Random chaos_;
  Random operator_;
  Random pauses_;  // of its own, so that the others draw what they drew before there were pauses
  std::vector<Slot> slots_;
  ProcessId last_process_ = 0;
  bool over_ = false;
  Report report_;
};

// A run on its own: the report of a world with this scenario.
Report run(const Scenario& scenario);

// "seed 17: P3 order: ...; replay: outbox-sim --seed 17 --profile swarm --trace"
std::string describe(const Scenario& scenario, const Report& report);

}  // namespace outbox::sim
