#include "tests/sim/model/joint_circuit.h"

#include <algorithm>

namespace outbox::sim {

void JointCircuit::take_in(ProcessId who, const CircuitNews& news, Time now) {
  if (news.kind == CircuitNews::Kind::closed) {
    if (open_ && news.verdict == number_) open_ = false;
    return;
  }
  if (open_ && prober_ != who && !may_probe(who, now)) return;
  if (news.verdict != 0 && (!open_ || news.verdict != number_)) return;
  ++number_;
  open_ = true;
  break_ends_ = now + news.open_for;
  prober_.reset();
}

void JointCircuit::keep_probe(ProcessId who, Duration term, Time now) {
  if (!open_) return;
  prober_ = who;
  kept_until_ = now + term;
}

void JointCircuit::leave(ProcessId who) {
  if (prober_ == who) prober_.reset();
}

Duration JointCircuit::wait_of(ProcessId who, Time now) const {
  if (!open_) return Duration{0};
  const bool others = prober_ && *prober_ != who;
  const Time until = std::max(break_ends_, others ? kept_until_ : now);
  return std::max(until - now, Duration{0});
}

}  // namespace outbox::sim
