#include "metrics/listen_socket.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <utility>

#include "relay/backends.h"

namespace outbox {

namespace {

// A burst of connections must find room, or a probe waits a second for its second SYN.
constexpr int kBacklog = 1024;

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

bool is_port(const std::string& text) {
  std::uint16_t port = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, port);
  return parsed.ec == std::errc() && parsed.ptr == end;
}

Addresses resolve(const ListenAddress& where, const std::string& address,
                  const std::string& setting) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const char* const host = where.host.empty() ? "0.0.0.0" : where.host.c_str();
  const int error = getaddrinfo(host, where.port.c_str(), &hints, &found);
  if (error != 0) {
    throw SettingsError(fmt::format(
        "{}: can't listen on \"{}\": no such address here ({}); use one of this machine's "
        "addresses, or 0.0.0.0 for all.",
        setting, address, gai_strerror(error)));
  }
  return {found, &freeaddrinfo};
}

void set_option(int fd, int level, int option, int value) {
  setsockopt(fd, level, option, &value, sizeof value);
}

// The socket, or -1 with errno set.
OwnedFd try_listen(const addrinfo& address) {
  OwnedFd socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.get() < 0) return OwnedFd();
  // Not SO_REUSEPORT: two relays would share a port, and each scrape would ask one at random.
  set_option(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.ai_family == AF_INET6) set_option(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (bind(socket.get(), address.ai_addr, address.ai_addrlen) != 0) return OwnedFd();
  if (listen(socket.get(), kBacklog) != 0) return OwnedFd();
  return socket;
}

std::string advice_for(int error) {
  if (error == EADDRINUSE) return "another program listens there; choose another port or stop it";
  if (error == EACCES) return "ports below 1024 need privileges; choose a higher one";
  if (error == EADDRNOTAVAIL) return "this machine has no such address; 0.0.0.0 means all it has";
  return "choose another address";
}

}  // namespace

OwnedFd& OwnedFd::operator=(OwnedFd&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) close(fd_);
    fd_ = other.release();
  }
  return *this;
}

OwnedFd::~OwnedFd() {
  const int error = errno;  // what went wrong before is what the caller wants to tell
  if (fd_ >= 0) close(fd_);
  errno = error;
}

int OwnedFd::release() { return std::exchange(fd_, -1); }

ListenAddress parse_listen_address(const std::string& text, const std::string& setting) {
  const std::size_t colon = text.rfind(':');
  ListenAddress address;
  if (colon != std::string::npos) {
    address = {text.substr(0, colon), text.substr(colon + 1)};
  }
  std::string& host = address.host;
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  const bool bare_ipv6 = !bracketed && host.find(':') != std::string::npos;
  if (colon == std::string::npos || bare_ipv6 || !is_port(address.port)) {
    throw SettingsError(
        fmt::format("{}: \"{}\" is no address to listen on; write host:port, such as 0.0.0.0:9711, "
                    "127.0.0.1:9711 or [::1]:9711.",
                    setting, text));
  }
  return address;
}

OwnedFd open_listen_socket(const std::string& address, const std::string& setting) {
  const Addresses candidates = resolve(parse_listen_address(address, setting), address, setting);
  int error = 0;
  for (const addrinfo* each = candidates.get(); each != nullptr; each = each->ai_next) {
    OwnedFd socket = try_listen(*each);
    if (socket.get() >= 0) return socket;
    error = errno;
  }
  throw SettingsError(fmt::format("{}: can't listen on \"{}\": {}; {}.", setting, address,
                                  std::strerror(error), advice_for(error)));
}

std::uint16_t port_of(const OwnedFd& socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) return 0;
  if (address.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  }
  return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

}  // namespace outbox
