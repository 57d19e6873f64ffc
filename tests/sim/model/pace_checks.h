// Checks of the relay's pace: what an open circuit lets through, and that nothing spins.
#pragma once

#include <map>

#include "tests/sim/model/court.h"
#include "tests/sim/model/scenario.h"

namespace outbox::sim {

class PaceChecks final : public Facts {
 public:
  PaceChecks(const Scenario& scenario, Court& court) : scenario_(scenario), court_(court) {}

  void on_step(ProcessId process, Time begin, Time end, Time next) override;
  void on_stimulus(ProcessId process, Time now) override;
  void on_submitted(ProcessId process, const Publication& publication, RowNumber row,
                    Time now) override;
  void on_circuit(ProcessId process, const CircuitChange& change, Time now) override;

 private:
  struct Pace {
    CircuitState state = CircuitState::closed;
    CircuitState state_before_step = CircuitState::closed;
    bool was_closed_in_step = false;
    std::size_t half_opened_in_step = 0;
    std::size_t submitted_in_step = 0;
    std::size_t probes_sent = 0;  // since the circuit half-opened

    Time second{};
    std::size_t steps = 0;
    std::size_t stimuli = 0;
    std::size_t eager = 0;  // steps in a row that wanted to be called again at once
  };

  void check_circuit(ProcessId process, Pace& pace, Time now);
  void check_pace(ProcessId process, Pace& pace, Time begin, Time end, Time next);

  const Scenario& scenario_;
  Court& court_;
  std::map<ProcessId, Pace> paces_;
};

}  // namespace outbox::sim
