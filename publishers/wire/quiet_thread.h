// Threads of publishers.
#pragma once

#include <signal.h>

#include <thread>
#include <utility>

namespace outbox {

// Starts a thread that takes no signals: they belong to main, and a write to a closed pipe or
// connection has to end as EPIPE rather than as the end of the process.
template <typename Work>
std::thread start_quiet_thread(Work work) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(work));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace outbox
