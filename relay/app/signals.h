// Signals as something to wait for, and the end of the work beside them.
#pragma once

#include <optional>

#include "metrics/listen_socket.h"
#include "relay/clock.h"

namespace outbox {

// Built by the main thread before any other starts, since threads inherit what is blocked: from
// then on SIGTERM, SIGINT and SIGHUP come here only, and SIGPIPE nowhere.
class Signals {
 public:
  Signals();

  // What ended a wait: the first of these that holds.
  struct Wake {
    bool finished = false;      // finish() was called
    std::optional<int> signal;  // a signal came
    bool readable = false;      // there is something to read from the descriptor
  };

  // Waits for a signal, for finish(), until `descriptor` can be read (-1: none), or for so long.
  Wake wait(int descriptor = -1, std::optional<Duration> at_most = {});

  // From any thread: what the process is there for has ended.
  void finish();

 private:
  OwnedFd signals_;
  OwnedFd finished_;
};

}  // namespace outbox
