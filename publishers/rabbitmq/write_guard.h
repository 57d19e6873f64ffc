// A deadline for calls of a library that may write to a socket for ever.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "relay/clock.h"

namespace outbox {

// Shuts the socket down when a guarded call is not over in time: the call then fails, and so does
// the connection. One thread guards, another one watches.
class WriteGuard {
 public:
  explicit WriteGuard(const Clock& clock);
  ~WriteGuard();
  WriteGuard(const WriteGuard&) = delete;
  WriteGuard& operator=(const WriteGuard&) = delete;

  // While it lives, the call is under way.
  class Scope {
   public:
    Scope(WriteGuard& guard, int socket, Time deadline) : guard_(guard) {
      guard_.arm(socket, deadline);
    }
    ~Scope() { guard_.disarm(); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    WriteGuard& guard_;
  };

 private:
  void arm(int socket, Time deadline);
  void disarm();
  void watch();

  const Clock& clock_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;                // guarded by mutex_
  int socket_ = -1;                    // guarded
  std::optional<Time> deadline_;       // guarded; none: no call is under way
  std::optional<Time> watched_until_;  // guarded; when the watcher looks again
  std::thread thread_;                 // last: it uses everything above
};

}  // namespace outbox
