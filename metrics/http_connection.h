// The guard in front of the HTTP library: reads a request's head within limits of time and size,
// and lets through only what a probe or a scraper has reason to send.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace outbox {

using Deadline = std::chrono::steady_clock::time_point;

inline constexpr std::size_t kRequestHeadMax = 8 * 1024;

// One connection, used by one thread; the socket is non-blocking and stays its owner's.
class HttpConnection {
 public:
  explicit HttpConnection(int fd) : fd_(fd) {}

  enum class Read { complete, closed, timed_out, too_large };

  // Reads up to the empty line that ends the next request's head; see head().
  Read read_head(Deadline deadline);
  const std::string& head() const { return head_; }
  // True if bytes of a request have come that is not complete.
  bool has_partial_head() const { return !buffer_.empty(); }

  bool send(std::string_view bytes, Deadline deadline);

  // Reads away what is still coming, for a moment and up to a limit: closing with bytes unread
  // would make the kernel throw away an answer that the other side has not yet seen.
  void drain();

 private:
  bool wait_for(short events, Deadline deadline) const;

  const int fd_;
  std::string buffer_;
  std::string head_;
};

// What the guard found in a request's head.
struct ScreenedRequest {
  int refusal = 0;  // status to refuse it with; 0: let it through
  std::string request_line;
  bool keep_alive = false;
};

ScreenedRequest screen_request(std::string_view head);

// A whole response without a body, after which the connection ends.
std::string refusal_response(int status);

}  // namespace outbox
