#include "tests/bench/socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace outbox::bench {
namespace {

constexpr int kBacklog = 64;

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

void require(bool succeeded, const char* what) {
  if (!succeeded) throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace

Socket::~Socket() {
  if (handle_ >= 0) close(handle_);
}

void Socket::set_no_delay() const {
  const int yes = 1;
  setsockopt(handle_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

int listen_anywhere() {
  const int handle = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const sockaddr_in address = loopback(0);
  require(bind(handle, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0, "bind");
  require(listen(handle, kBacklog) == 0, "listen");
  return handle;
}

int connect_to(std::uint16_t port) {
  const int handle = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(port);
  require(connect(handle, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0,
          "connect");
  return handle;
}

std::uint16_t port_of(const Socket& socket) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  require(getsockname(socket.handle(), reinterpret_cast<sockaddr*>(&address), &size) == 0,
          "getsockname");
  return ntohs(address.sin_port);
}

}  // namespace outbox::bench
