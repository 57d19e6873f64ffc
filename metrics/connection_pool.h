// Threads for connections: one each, made on demand and ended when idle.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <list>
#include <mutex>

#include "metrics/listen_socket.h"
#include "relay/clock.h"

namespace outbox {

struct PoolOptions {
  std::size_t connections_max = 512;               // and threads
  std::size_t stack_bytes = 256 * 1024;            // of address space; what is used is far less
  Duration thread_life = std::chrono::seconds{5};  // without work
};

// Many connections that say nothing hold many threads but keep no new one waiting: at the maximum,
// the oldest connection has to go. Safe to use from any thread.
class ConnectionPool {
 public:
  // `serve` ends soon after the connection was shut down, and does not throw or close it.
  ConnectionPool(const PoolOptions& options, std::function<void(int fd)> serve);
  // Shuts all connections down and waits for their threads.
  ~ConnectionPool();
  ConnectionPool(const ConnectionPool&) = delete;
  ConnectionPool& operator=(const ConnectionPool&) = delete;

  // Serves the connection and closes it.
  void take(OwnedFd connection);

  std::size_t thread_count() const;

 private:
  struct Active {
    int fd;
    bool shut_down = false;
  };

  static void* run(void* pool);
  bool start_thread();
  void work();
  void shut_down_oldest();

  const PoolOptions options_;
  const std::function<void(int fd)> serve_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable work_waits_;
  std::condition_variable thread_ended_;
  std::deque<OwnedFd> waiting_;
  std::list<Active> active_;  // oldest first
  std::size_t threads_ = 0;
  std::size_t idle_ = 0;
  bool stopping_ = false;
};

}  // namespace outbox
