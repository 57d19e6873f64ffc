#include "publishers/wire/wake_up.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace outbox {

WakeUp::WakeUp() : descriptor_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (descriptor_ < 0) throw std::system_error(errno, std::system_category(), "eventfd");
}

WakeUp::~WakeUp() { ::close(descriptor_); }

void WakeUp::ring() { ::eventfd_write(descriptor_, 1); }

void WakeUp::clear() {
  eventfd_t ignored = 0;
  ::eventfd_read(descriptor_, &ignored);
}

}  // namespace outbox
