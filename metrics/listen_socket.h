// A TCP port to listen on.
#pragma once

#include <cstdint>
#include <string>

namespace outbox {

// A file descriptor that is closed with its owner.
class OwnedFd {
 public:
  explicit OwnedFd(int fd = -1) : fd_(fd) {}
  OwnedFd(OwnedFd&& other) noexcept : fd_(other.release()) {}
  OwnedFd& operator=(OwnedFd&& other) noexcept;
  ~OwnedFd();

  int get() const { return fd_; }
  int release();

 private:
  int fd_;
};

// "0.0.0.0:9711" or "[::1]:0" in two.
struct ListenAddress {
  std::string host;  // empty: all addresses
  std::string port;
};

// Throws SettingsError that names the setting, e.g. "http.listen".
ListenAddress parse_listen_address(const std::string& text, const std::string& setting);

// Listens, and refuses a port that anybody else listens on. Throws SettingsError that says what is
// in the way and what to do.
OwnedFd open_listen_socket(const std::string& address, const std::string& setting);

// The port that a socket is bound to.
std::uint16_t port_of(const OwnedFd& socket);

}  // namespace outbox
