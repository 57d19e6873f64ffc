// A client that can behave badly.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "metrics/listen_socket.h"

namespace outbox {

struct HttpAnswer {
  int status = 0;  // 0: none came
  std::map<std::string, std::string> headers;
  std::string body;
  std::string raw;
};

HttpAnswer parse_answer(const std::string& raw);

// One TCP connection to this machine.
class RawConnection {
 public:
  explicit RawConnection(std::uint16_t port, bool ipv6 = false);

  bool connected() const { return connected_; }
  bool send(std::string_view bytes);
  // All until the other side ends, or the time is over.
  std::string read_to_end(std::chrono::milliseconds time_max = std::chrono::seconds{10});
  // Until that text has come, or the end.
  std::string read_until(std::string_view text);
  // After read_to_end(): the other side closed, and did not reset the connection.
  bool ended_in_order() const { return ended_in_order_; }
  // True once the other side has closed.
  bool closed() const;

 private:
  OwnedFd fd_;
  bool connected_ = false;
  bool ended_in_order_ = false;
};

// One request on a connection of its own.
HttpAnswer ask(std::uint16_t port, const std::string& request);
HttpAnswer get(std::uint16_t port, const std::string& target);

}  // namespace outbox
