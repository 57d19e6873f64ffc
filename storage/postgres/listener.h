// Told by the server when rows were inserted.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
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
  Listener(const StoreSettings& settings, Bell& bell) : settings_(settings), bell_(bell) {}
  ~Listener() { stop(); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // Starts to listen, if it does not yet. `directly`: sessions are ours for as long as we like.
  void listen(bool directly);
  void stop();

 private:
  void run();
  void hear();
  bool pause(std::chrono::milliseconds time);

  const StoreSettings settings_;
  Bell& bell_;
  std::atomic<bool> over_ = false;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::thread thread_;
};

}  // namespace outbox::postgres
