#include "relay/waker.h"

#include <utility>

namespace outbox {

void Waker::ring() {
  {
    const std::lock_guard lock(mutex_);
    pending_.rung = true;
  }
  rung_.notify_one();
}

void Waker::hint() {
  {
    const std::lock_guard lock(mutex_);
    pending_.rung = true;
    pending_.hinted = true;
  }
  rung_.notify_one();
}

Wake Waker::wait_until(Time until) {
  std::unique_lock lock(mutex_);
  const Time now = clock_.now();
  if (!pending_.rung && until > now) {
    rung_.wait_for(lock, until - now, [this] { return pending_.rung; });
  }
  return std::exchange(pending_, Wake{});
}

}  // namespace outbox
