// Signals as something to wait for, and the end of the work beside them.
#pragma once

#include <optional>

#include "metrics/listen_socket.h"

namespace outbox {

// Built by the main thread before any other starts, since threads inherit what is blocked: from
// then on SIGTERM, SIGINT and SIGHUP come here only, and SIGPIPE nowhere.
class Signals {
 public:
  Signals();

  // Waits for a signal (its number) or for finish() (nothing).
  std::optional<int> wait();

  // From any thread: what the process is there for has ended.
  void finish();

 private:
  OwnedFd signals_;
  OwnedFd finished_;
};

}  // namespace outbox
