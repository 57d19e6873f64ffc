// A plain TCP socket on the loopback interface.
#pragma once

#include <cstdint>

namespace outbox::bench {

// Closes the socket when it ends. Confined to one thread.
class Socket {
 public:
  explicit Socket(int handle) : handle_(handle) {}
  ~Socket();
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  int handle() const { return handle_; }
  void set_no_delay() const;

 private:
  int handle_;
};

// Handles for a Socket. They throw std::system_error.
int listen_anywhere();
int connect_to(std::uint16_t port);
std::uint16_t port_of(const Socket& socket);

}  // namespace outbox::bench
