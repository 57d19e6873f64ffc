#include "tests/sim/model/pace_checks.h"

namespace outbox::sim {
namespace {

constexpr std::size_t kStepsMax = 400;  // in a second, beside what receipts and hints ask for
constexpr std::size_t kStepsPerStimulus = 6;
constexpr std::size_t kEagerMax = 200;

}  // namespace

void PaceChecks::on_step(ProcessId process, Time begin, Time end, Time next) {
  Pace& pace = paces_[process];
  check_circuit(process, pace, end);
  check_pace(process, pace, begin, end, next);
}

// Open: nothing is submitted. Half-open: no more than the probes. A step in which the circuit was
// closed for a moment may have submitted before it opened or after it closed.
void PaceChecks::check_circuit(ProcessId process, Pace& pace, Time now) {
  const bool closed = pace.was_closed_in_step || pace.state_before_step == CircuitState::closed ||
                      pace.state == CircuitState::closed;
  const bool half_open =
      pace.half_opened_in_step > 0 || pace.state_before_step == CircuitState::half_open;
  const std::size_t probes = scenario_.relay.breaker.probes;
  if (pace.half_opened_in_step > 0) pace.probes_sent = 0;
  pace.probes_sent += pace.submitted_in_step;
  const std::size_t most = probes * std::max<std::size_t>(1, pace.half_opened_in_step);
  const std::string who = "process " + std::to_string(process);
  if (!closed && !half_open && pace.submitted_in_step > 0) {
    court_.accuse("breaker", who + " submitted while its circuit was open", now);
  } else if (!closed && half_open && pace.probes_sent > most) {
    court_.accuse("breaker", who + " sent more probes than it may", now);
  }
  pace.state_before_step = pace.state;
  pace.was_closed_in_step = false;
  pace.half_opened_in_step = 0;
  pace.submitted_in_step = 0;
}

void PaceChecks::check_pace(ProcessId process, Pace& pace, Time begin, Time end, Time next) {
  ++pace.steps;
  pace.eager = next <= end ? pace.eager + 1 : 0;
  if (pace.eager > kEagerMax) {
    court_.accuse("hot loop", "process " + std::to_string(process) + " never waits", end);
  }
  if (begin - pace.second < std::chrono::seconds{1}) return;
  if (pace.steps > kStepsMax + kStepsPerStimulus * pace.stimuli) {
    court_.accuse("hot loop",
                  "process " + std::to_string(process) + " took " + std::to_string(pace.steps) +
                      " steps in a second with " + std::to_string(pace.stimuli) + " events",
                  end);
  }
  pace.second = begin;
  pace.steps = 0;
  pace.stimuli = 0;
}

void PaceChecks::on_stimulus(ProcessId process, Time) {
  ++paces_[process].stimuli;
  paces_[process].eager = 0;
}

void PaceChecks::on_submitted(ProcessId process, const Publication&, RowNumber, Time) {
  ++paces_[process].submitted_in_step;
}

void PaceChecks::on_circuit(ProcessId process, const CircuitChange& change, Time) {
  Pace& pace = paces_[process];
  pace.state = change.to;
  pace.was_closed_in_step |=
      change.to == CircuitState::closed || change.from == CircuitState::closed;
  if (change.to == CircuitState::half_open) ++pace.half_opened_in_step;
}

}  // namespace outbox::sim
