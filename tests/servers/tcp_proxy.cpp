#include "tests/servers/tcp_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <stdexcept>

namespace outbox::testing {

namespace {

constexpr int kTick = 5;  // milliseconds between looks at the switches

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

int connect_to(std::uint16_t port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(port);
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    return socket;
  }
  ::close(socket);
  return -1;
}

void send_at_once(int socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace

TcpProxy::TcpProxy(std::uint16_t target) : target_(target) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(listener_, 64) != 0 ||
      ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw std::runtime_error("the proxy can't listen");
  }
  port_ = ntohs(address.sin_port);
  server_ = std::thread([this] { serve(); });
}

TcpProxy::~TcpProxy() {
  over_ = true;
  close();
  server_.join();
  for (std::thread& thread : threads_) thread.join();
  for (const int socket : sockets_) ::close(socket);
}

void TcpProxy::cut() {
  const std::lock_guard lock(mutex_);
  for (const int socket : sockets_) ::shutdown(socket, SHUT_RDWR);
}

std::size_t TcpProxy::waiting() {
  const std::lock_guard lock(mutex_);
  std::size_t all = 0;
  for (const int socket : sockets_) {
    int bytes = 0;
    if (::ioctl(socket, FIONREAD, &bytes) == 0) all += static_cast<std::size_t>(bytes);
  }
  return all;
}

void TcpProxy::close() {
  const int listener = listener_.exchange(-1);
  if (listener >= 0) {
    ::shutdown(listener, SHUT_RDWR);
    ::close(listener);
  }
  cut();
}

void TcpProxy::serve() {
  for (int listener = listener_; listener >= 0; listener = listener_) {
    pollfd ready{listener, POLLIN, 0};
    if (::poll(&ready, 1, kTick) <= 0) continue;
    const int client = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) continue;
    const int server = connect_to(target_);
    if (server < 0) {
      ::close(client);
      continue;
    }
    send_at_once(client);
    send_at_once(server);
    ++connections_;
    const std::lock_guard lock(mutex_);
    sockets_.push_back(client);
    sockets_.push_back(server);
    threads_.emplace_back([this, client, server] { pump(client, server); });
    threads_.emplace_back([this, client, server] { pump(server, client); });
  }
}

// Until one side ends, and then the other one, too.
void TcpProxy::pump(int from, int to) {
  std::array<char, 65536> buffer{};
  while (!over_) {
    if (stalled_) {
      std::this_thread::sleep_for(std::chrono::milliseconds{kTick});
      continue;
    }
    pollfd ready{from, POLLIN, 0};
    if (::poll(&ready, 1, kTick) == 0 || stalled_) continue;
    const ssize_t got = ::recv(from, buffer.data(), buffer.size(), 0);
    if (got <= 0) break;
    passed_ += static_cast<std::size_t>(got);
    if (::send(to, buffer.data(), static_cast<std::size_t>(got), MSG_NOSIGNAL) != got) break;
  }
  ::shutdown(from, SHUT_RDWR);
  ::shutdown(to, SHUT_RDWR);
}

}  // namespace outbox::testing
