#include "storage/postgres/listener.h"

#include <poll.h>

#include <chrono>

#include "storage/postgres/connection.h"

namespace outbox::postgres {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLook{200};  // how soon the end is noticed
constexpr milliseconds kTryAgain{5000};

}  // namespace

void Listener::listen(bool directly) {
  if (!directly || thread_.joinable()) return;
  thread_ = std::thread([this] { run(); });
}

void Listener::stop() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  ended_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool Listener::pause(milliseconds time) {
  std::unique_lock lock(mutex_);
  ended_.wait_for(lock, time, [this] { return over_.load(); });
  return !over_;
}

void Listener::run() {
  while (!over_) {
    try {
      hear();
    } catch (const std::exception&) {
      // The relay's own connection tells what is wrong.
    }
    if (!pause(kTryAgain)) return;
  }
}

// Until the end, or the connection's.
void Listener::hear() {
  ConnectionSettings settings = connection_settings(settings_, "listener");
  Connection connection(settings);
  if (!connection.prepares()) return;
  connection.command("LISTEN outbox_relay");
  bell_.hint();  // what came before was not heard
  while (!over_) {
    pollfd socket{connection.socket(), POLLIN, 0};
    if (::poll(&socket, 1, static_cast<int>(kLook.count())) <= 0) continue;
    if (connection.take_notification()) bell_.hint();
  }
}

}  // namespace outbox::postgres
