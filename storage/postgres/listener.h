// Told by the server when rows were inserted, while the relay sleeps.
#pragma once

#include <mutex>
#include <thread>

#include "relay/bell.h"

namespace outbox::postgres {

// Watches the relay's own connection between its turns, on a thread that does nothing else: what
// the server sends unasked is a notification, or the end of the connection, and both are worth a
// turn. A hint only: a relay that is told nothing polls.
class Listener {
 public:
  // The bell outlives this.
  explicit Listener(Bell& bell);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // From now on until disarm(), nobody else reads from that socket.
  void arm(int socket);
  // Nothing has come since arm().
  bool armed();
  // Costs nothing if there is nothing to disarm.
  void disarm();

 private:
  void run();
  void wake() const;

  Bell& bell_;
  const int changed_;  // an eventfd
  std::mutex mutex_;
  int socket_ = -1;    // guarded; -1: not armed
  bool over_ = false;  // guarded
  std::thread thread_;
};

}  // namespace outbox::postgres
