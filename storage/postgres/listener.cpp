#include "storage/postgres/listener.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "storage/postgres/connection.h"

namespace outbox::postgres {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTryAgain{5000};
constexpr milliseconds kLong{60'000};
// The end of the program waits for a connection that is being made.
constexpr Duration kConnectMax = std::chrono::seconds{2};

}  // namespace

Listener::Listener(const StoreSettings& settings, Bell& bell)
    : settings_(settings), bell_(bell), end_(::eventfd(0, EFD_CLOEXEC)) {}

Listener::~Listener() {
  stop();
  ::close(end_);
}

void Listener::listen(bool directly) {
  if (!directly || thread_.joinable()) return;
  thread_ = std::thread([this] { run(); });
}

void Listener::stop() {
  ::eventfd_write(end_, 1);
  if (thread_.joinable()) thread_.join();
}

bool Listener::wait(int socket, milliseconds time) const {
  std::array<pollfd, 2> sources{{{end_, POLLIN, 0}, {socket, POLLIN, 0}}};
  ::poll(sources.data(), socket < 0 ? 1 : 2, static_cast<int>(time.count()));
  return sources[0].revents != 0;
}

void Listener::run() {
  do {
    try {
      hear();
    } catch (const std::exception&) {
      // The relay's own connection tells what is wrong.
    }
  } while (!wait(-1, kTryAgain));
}

// Until the end, or the connection's.
void Listener::hear() {
  ConnectionSettings settings = connection_settings(settings_, "listener");
  settings.timeout = std::min(settings.timeout, kConnectMax);
  Connection connection(settings);
  if (!connection.prepares()) return;
  connection.command("LISTEN outbox_relay");
  bell_.hint();  // what came before was not heard
  while (!wait(connection.socket(), kLong)) {
    if (connection.take_notification()) bell_.hint();
  }
}

}  // namespace outbox::postgres
