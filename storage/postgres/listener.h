// Told by the server when rows were inserted.
#pragma once

#include <chrono>
#include <string>
#include <thread>

#include "relay/backends.h"
#include "relay/bell.h"

namespace outbox::postgres {

// A hint only: a relay that is told nothing polls. Listens on a connection of its own, and on a
// thread of its own, which does nothing but wait; through a pooler that lends sessions out there is
// nothing to listen to.
class Listener {
 public:
  // The bell outlives this.
  Listener(const StoreSettings& settings, Bell& bell);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // Starts to listen, if it does not yet. `directly`: sessions are ours for as long as we like.
  void listen(bool directly);
  void stop();

 private:
  void run();
  void hear();
  // Whether it is time to stop; waits for it, or until the socket (-1: none) can be read.
  bool wait(int socket, std::chrono::milliseconds time) const;

  const StoreSettings settings_;
  Bell& bell_;
  const int end_;  // an eventfd, readable when it is time to stop
  std::thread thread_;
};

}  // namespace outbox::postgres
