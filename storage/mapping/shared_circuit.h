// One broker's circuit as the relays of an outbox know it together (behaviour: "verdicts are
// shared"): the rules by which a row of outbox_relay_brokers changes. A database reads it locked,
// asks here, and writes what has changed.
#pragma once

#include <cstdint>
#include <string>

#include "relay/outbox_store.h"

namespace outbox {

// The row at one moment; durations count from then.
struct SharedCircuit {
  std::int64_t number = 0;  // rises with each change of the verdict
  bool open = false;
  Duration break_left{0};     // no probe before it is over
  std::int64_t probe_by = 0;  // the incarnation that may probe; 0: nobody
  Duration probe_left{0};     // for so long
  std::string reason;

  // Until the relay `self` may probe.
  Duration wait_of(std::int64_t self) const;
  // What the relay `self` is told.
  SharedVerdict verdict_for(std::int64_t self) const;
  // Takes in what the relay `self` tells. False: it changes nothing.
  bool take_in(const CircuitNews& news, std::int64_t self);
  // Keeps the probe's place for the relay `self`; requires that it may probe. False: no verdict
  // stands, so that anybody may.
  bool keep_probe(std::int64_t self, Duration term);
};

}  // namespace outbox
