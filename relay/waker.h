// Sleep until a time, or until somebody rings.
#pragma once

#include <condition_variable>
#include <mutex>

#include "relay/bell.h"
#include "relay/clock.h"

namespace outbox {

// What woke the relay loop.
struct Wake {
  bool rung = false;
  bool hinted = false;  // somebody called hint(): the outbox may have new rows
};

// ring() and hint() from any thread; wait_until() from the relay's.
class Waker final : public Bell {
 public:
  explicit Waker(const Clock& clock) : clock_(clock) {}

  void ring() override;
  void hint() override;
  // Returns at `until`, or at once if somebody rang since the last call.
  Wake wait_until(Time until);

 private:
  const Clock& clock_;
  std::mutex mutex_;
  std::condition_variable rung_;
  Wake pending_;
};

}  // namespace outbox
