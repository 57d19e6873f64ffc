// The relay's status, readable while it runs.
#pragma once

#include <mutex>

#include "relay/relay.h"

namespace outbox {

// Written by the relay loop, read from any thread.
class StatusBoard {
 public:
  struct Reading {
    RelayStatus status;
    Time written{};  // when the loop last came round: old means stalled
    bool started = false;
    bool finished = false;
  };

  void write(RelayStatus status, Time now) {
    const std::lock_guard lock(mutex_);
    reading_.status = std::move(status);
    reading_.written = now;
    reading_.started = true;
  }
  void finish() {
    const std::lock_guard lock(mutex_);
    reading_.finished = true;
  }
  Reading read() const {
    const std::lock_guard lock(mutex_);
    return reading_;
  }

 private:
  mutable std::mutex mutex_;
  Reading reading_;
};

}  // namespace outbox
