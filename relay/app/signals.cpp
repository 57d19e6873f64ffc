#include "relay/app/signals.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>

#include "relay/backends.h"

namespace outbox {
namespace {

int open_signals() {
  sigset_t mask;
  sigemptyset(&mask);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&mask, number);
  pthread_sigmask(SIG_BLOCK, &mask, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
}

}  // namespace

Signals::Signals() : signals_(open_signals()), finished_(eventfd(0, EFD_CLOEXEC)) {
  if (signals_.get() < 0 || finished_.get() < 0) {
    throw SettingsError(fmt::format("can't wait for signals: {}", std::strerror(errno)));
  }
}

std::optional<int> Signals::wait() {
  std::array<pollfd, 2> waiting = {{{signals_.get(), POLLIN, 0}, {finished_.get(), POLLIN, 0}}};
  while (true) {
    if (poll(waiting.data(), waiting.size(), -1) < 0) continue;  // EINTR: a debugger, a stop
    signalfd_siginfo info{};
    if (read(signals_.get(), &info, sizeof info) == sizeof info) {
      return static_cast<int>(info.ssi_signo);
    }
    if ((waiting[1].revents & POLLIN) != 0) return std::nullopt;
  }
}

void Signals::finish() {
  const std::uint64_t one = 1;
  // An event counter that is full has told everything already.
  [[maybe_unused]] const auto written = write(finished_.get(), &one, sizeof one);
}

}  // namespace outbox
