#include "storage/postgres/listener.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>

namespace outbox::postgres {

Listener::Listener(Bell& bell) : bell_(bell), changed_(::eventfd(0, EFD_CLOEXEC)) {}

Listener::~Listener() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  wake();
  if (thread_.joinable()) thread_.join();
  ::close(changed_);
}

void Listener::arm(int socket) {
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  {
    const std::lock_guard lock(mutex_);
    socket_ = socket;
  }
  wake();
}

bool Listener::armed() {
  const std::lock_guard lock(mutex_);
  return socket_ >= 0;
}

void Listener::disarm() {
  {
    const std::lock_guard lock(mutex_);
    if (socket_ < 0) return;
    socket_ = -1;
  }
  wake();
}

void Listener::wake() const { ::eventfd_write(changed_, 1); }

void Listener::run() {
  while (true) {
    int watched = -1;
    {
      const std::lock_guard lock(mutex_);
      if (over_) return;
      watched = socket_;
    }
    std::array<pollfd, 2> sources{{{changed_, POLLIN, 0}, {watched, POLLIN, 0}}};
    ::poll(sources.data(), sources.size(), -1);  // one of -1 is left out
    if (sources[0].revents != 0) {
      eventfd_t count = 0;
      ::eventfd_read(changed_, &count);
      continue;
    }
    if (watched < 0 || sources[1].revents == 0) continue;
    {
      const std::lock_guard lock(mutex_);
      if (socket_ != watched) continue;
      socket_ = -1;  // once: the turn reads it
    }
    bell_.hint();
  }
}

}  // namespace outbox::postgres
