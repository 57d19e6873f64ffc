// Turns the broker's host name into addresses, without letting a slow name server hold anybody up.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "relay/clock.h"

namespace outbox {

struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;
};

struct Resolution {
  std::vector<Address> addresses;
  std::string error;  // why there are none
};

// The system's lookup can't be interrupted, so it has a thread of its own; callers share the lookup
// that is running and wait for it no longer than they want. Safe from any thread. The destructor
// waits for a running lookup, which is asked to give up soon after `patience`.
class Resolver {
 public:
  Resolver(std::string host, std::uint16_t port, Duration patience, const Clock& clock);
  ~Resolver();
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  Resolution resolve(Time deadline);

 private:
  void work();
  Resolution look_up(int flags) const;

  const std::string host_;
  const std::uint16_t port_;
  const Duration patience_;
  const Clock& clock_;
  const Resolution
      numeric_;  // not empty if the host is an address: then there is nothing to look up

  std::mutex mutex_;
  std::condition_variable changed_;
  Resolution latest_;           // guarded by mutex_
  std::uint64_t finished_ = 0;  // guarded: lookups done
  bool wanted_ = false;         // guarded
  bool stopping_ = false;       // guarded

  std::thread thread_;
};

}  // namespace outbox
