#include "publishers/rabbitmq/write_guard.h"

#include <sys/socket.h>

#include "publishers/wire/quiet_thread.h"

namespace outbox {

WriteGuard::WriteGuard(const Clock& clock)
    : clock_(clock), thread_(start_quiet_thread([this] { watch(); })) {}

WriteGuard::~WriteGuard() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

// The watcher is not woken for each call, which would cost more than the call: it looks again when
// the time that it knew is over.
void WriteGuard::arm(int socket, Time deadline) {
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    wake = !watched_until_ || deadline < *watched_until_;
    socket_ = socket;
    deadline_ = deadline;
  }
  if (wake) changed_.notify_one();
}

void WriteGuard::disarm() {
  const std::lock_guard lock(mutex_);
  deadline_.reset();
}

void WriteGuard::watch() {
  std::unique_lock lock(mutex_);
  while (!closed_) {
    const Time now = clock_.now();
    if (deadline_ && now >= *deadline_) {
      ::shutdown(socket_, SHUT_RDWR);
      deadline_.reset();
    }
    watched_until_ = deadline_;
    if (watched_until_) {
      changed_.wait_for(lock, *watched_until_ - now);
    } else {
      changed_.wait(lock);
    }
  }
}

}  // namespace outbox
