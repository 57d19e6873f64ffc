// Runs one relay on the calling thread: step, wait, drain on stop.
#pragma once

#include <stop_token>

#include "relay/relay.h"
#include "relay/status_board.h"
#include "relay/waker.h"

namespace outbox {

struct LoopOptions {
  Duration drain_timeout = std::chrono::seconds{20};  // from stop to giving back what is not sent
  Duration settle_timeout =
      std::chrono::seconds{7};  // then, for what is travelling: > publish time-out
};

// How a run ended.
struct LoopEnd {
  bool drained = false;  // nothing held, everything settled; else the leases end by their term
};

class RelayLoop {
 public:
  RelayLoop(Relay& relay, Waker& waker, TuningBox& tunings, const Clock& clock, StatusBoard& board,
            LoopOptions options)
      : relay_(relay),
        waker_(waker),
        tunings_(tunings),
        clock_(clock),
        board_(board),
        options_(options) {}

  // Returns when `stop` was requested and the relay is drained, or its time is over.
  LoopEnd run(std::stop_token stop);

 private:
  Relay& relay_;
  Waker& waker_;
  TuningBox& tunings_;
  const Clock& clock_;
  StatusBoard& board_;
  LoopOptions options_;
};

}  // namespace outbox
