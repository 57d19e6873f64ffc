#include "metrics/connection_pool.h"

#include <pthread.h>
#include <sys/socket.h>

#include <utility>

namespace outbox {

ConnectionPool::ConnectionPool(const PoolOptions& options, std::function<void(int fd)> serve)
    : options_(options), serve_(std::move(serve)) {}

ConnectionPool::~ConnectionPool() {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  waiting_.clear();
  for (const Active& connection : active_) shutdown(connection.fd, SHUT_RDWR);
  work_waits_.notify_all();
  thread_ended_.wait(lock, [this] { return threads_ == 0; });
}

void ConnectionPool::take(OwnedFd connection) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return;
  if (active_.size() + waiting_.size() >= options_.connections_max) shut_down_oldest();
  if (waiting_.size() >= options_.connections_max) return;
  waiting_.push_back(std::move(connection));
  if (idle_ >= waiting_.size()) {
    work_waits_.notify_one();
    return;
  }
  if (threads_ < options_.connections_max && start_thread()) return;
  // Whoever is free next takes it; if the system grants no thread at all, nobody will.
  if (threads_ == 0) waiting_.clear();
}

std::size_t ConnectionPool::thread_count() const {
  const std::lock_guard lock(mutex_);
  return threads_;
}

// With the mutex held, as in all that follow.
void ConnectionPool::shut_down_oldest() {
  for (Active& connection : active_) {
    if (connection.shut_down) continue;
    connection.shut_down = true;
    shutdown(connection.fd, SHUT_RDWR);
    return;
  }
}

bool ConnectionPool::start_thread() {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, options_.stack_bytes);
  pthread_t thread{};
  const bool started = pthread_create(&thread, &attributes, &ConnectionPool::run, this) == 0;
  pthread_attr_destroy(&attributes);
  if (started) ++threads_;
  return started;
}

void* ConnectionPool::run(void* pool) {
  static_cast<ConnectionPool*>(pool)->work();
  return nullptr;
}

void ConnectionPool::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    work_waits_.wait_for(lock, options_.thread_life,
                         [this] { return stopping_ || !waiting_.empty(); });
    --idle_;
    if (waiting_.empty()) break;
    const OwnedFd connection = std::move(waiting_.front());
    waiting_.pop_front();
    const auto active = active_.insert(active_.end(), Active{connection.get()});
    lock.unlock();
    serve_(connection.get());
    lock.lock();
    // Off the list before it is closed: its number may be another's a moment later.
    active_.erase(active);
  }
  --threads_;
  thread_ended_.notify_all();
}

}  // namespace outbox
