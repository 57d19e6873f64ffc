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

Signals::Wake Signals::wait(int descriptor, std::optional<Duration> at_most) {
  using std::chrono::milliseconds;
  std::array<pollfd, 3> waiting = {
      {{signals_.get(), POLLIN, 0}, {finished_.get(), POLLIN, 0}, {descriptor, POLLIN, 0}}};
  const auto timeout = at_most ? std::chrono::ceil<milliseconds>(*at_most).count() : -1;
  while (true) {
    const int found = poll(waiting.data(), waiting.size(), static_cast<int>(timeout));
    if (found < 0) continue;  // EINTR: a debugger, a stop
    signalfd_siginfo info{};
    if (read(signals_.get(), &info, sizeof info) == sizeof info) {
      return {.finished = false, .signal = static_cast<int>(info.ssi_signo), .readable = false};
    }
    const bool finished = (waiting[1].revents & POLLIN) != 0;
    return {.finished = finished, .signal = {}, .readable = (waiting[2].revents & POLLIN) != 0};
  }
}

void Signals::finish() {
  const std::uint64_t one = 1;
  // An event counter that is full has told everything already.
  [[maybe_unused]] const auto written = write(finished_.get(), &one, sizeof one);
}

}  // namespace outbox
