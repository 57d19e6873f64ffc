// What the relays of the simulated outbox say together of the broker's circuit, by the rules of
// relay/outbox_store.h.
#pragma once

#include "relay/outbox_store.h"
#include "tests/sim/model/facts.h"

namespace outbox::sim {

class JointCircuit {
 public:
  void take_in(ProcessId who, const CircuitNews& news, Time now);
  // Whether that relay may probe now.
  bool may_probe(ProcessId who, Time now) const { return wait_of(who, now) <= Duration{0}; }
  void keep_probe(ProcessId who, Duration term, Time now);
  void leave(ProcessId who);
  // By an operator.
  void close() { open_ = false; }
  SharedVerdict verdict_for(ProcessId who, Time now) const {
    return {number_, open_, wait_of(who, now)};
  }

 private:
  Duration wait_of(ProcessId who, Time now) const;

  std::uint64_t number_ = 0;
  bool open_ = false;
  Time break_ends_{};
  std::optional<ProcessId> prober_;
  Time kept_until_{};
};

}  // namespace outbox::sim
