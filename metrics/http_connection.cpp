#include "metrics/http_connection.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace outbox {

namespace {

constexpr std::string_view kLineEnd = "\r\n";
constexpr std::string_view kHeadEnd = "\r\n\r\n";
constexpr std::size_t kHeadersMax = 64;
constexpr std::size_t kDrainMax = 64 * 1024;
constexpr std::chrono::milliseconds kDrainTime{200};

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool equal_ignoring_case(std::string_view left, std::string_view right) {
  return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                    [](char a, char b) { return lower(a) == lower(b); });
}

bool contains_ignoring_case(std::string_view text, std::string_view part) {
  return std::search(text.begin(), text.end(), part.begin(), part.end(),
                     [](char a, char b) { return lower(a) == lower(b); }) != text.end();
}

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\t') || byte == 0x7F;
}

bool is_token_char(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// The status to refuse the header with, or 0.
int screen_header(std::string_view line, ScreenedRequest& request) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || colon == 0) return 400;
  const std::string_view name = line.substr(0, colon);
  if (!std::all_of(name.begin(), name.end(), is_token_char)) return 400;
  const std::string_view value = trimmed(line.substr(colon + 1));
  if (equal_ignoring_case(name, "transfer-encoding")) return 413;
  if (equal_ignoring_case(name, "content-length") && value != "0") return 413;
  if (equal_ignoring_case(name, "connection") && contains_ignoring_case(value, "close")) {
    request.keep_alive = false;
  }
  return 0;
}

const char* phrase_of(int status) {
  switch (status) {
    case 400:
      return "Bad Request";
    case 408:
      return "Request Timeout";
    case 413:
      return "Payload Too Large";
    case 431:
      return "Request Header Fields Too Large";
    default:
      return "Error";
  }
}

}  // namespace

bool HttpConnection::wait_for(short events, Deadline deadline) const {
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    pollfd waited{fd_, events, 0};
    const int ready = poll(&waited, 1, static_cast<int>(left.count()));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

HttpConnection::Read HttpConnection::read_head(Deadline deadline) {
  std::array<char, 2048> chunk;
  std::size_t searched = 0;
  while (true) {
    const std::size_t end = buffer_.find(kHeadEnd, searched);
    if (end != std::string::npos) {
      head_.assign(buffer_, 0, end + kLineEnd.size());
      buffer_.erase(0, end + kHeadEnd.size());
      return Read::complete;
    }
    if (buffer_.size() >= kRequestHeadMax) return Read::too_large;
    searched = buffer_.size() < kHeadEnd.size() ? 0 : buffer_.size() - kHeadEnd.size() + 1;
    // Also when bytes keep coming: a deadline that each byte puts off is none.
    if (!wait_for(POLLIN, deadline)) return Read::timed_out;
    const std::size_t wanted = std::min(chunk.size(), kRequestHeadMax - buffer_.size());
    const ssize_t got = recv(fd_, chunk.data(), wanted, 0);
    if (got > 0) {
      buffer_.append(chunk.data(), static_cast<std::size_t>(got));
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
      return Read::closed;
    }
  }
}

bool HttpConnection::send(std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      if (!wait_for(POLLOUT, deadline)) return false;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

void HttpConnection::drain() {
  shutdown(fd_, SHUT_WR);
  const Deadline deadline = std::chrono::steady_clock::now() + kDrainTime;
  std::array<char, 2048> chunk;
  for (std::size_t drained = 0; drained < kDrainMax;) {
    if (!wait_for(POLLIN, deadline)) return;
    const ssize_t got = recv(fd_, chunk.data(), chunk.size(), 0);
    if (got > 0) {
      drained += static_cast<std::size_t>(got);
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
      return;
    }
  }
}

ScreenedRequest screen_request(std::string_view head) {
  ScreenedRequest request;
  std::size_t headers = 0;
  for (std::size_t start = 0; start < head.size();) {
    const std::size_t end = head.find(kLineEnd, start);
    const std::string_view line = head.substr(start, end - start);
    start = end + kLineEnd.size();
    if (std::any_of(line.begin(), line.end(), is_control)) return {400, "", false};
    if (request.request_line.empty()) {
      if (line.empty()) return {400, "", false};
      request.request_line = line;
      request.keep_alive = line.ends_with(" HTTP/1.1");
      continue;
    }
    if (++headers > kHeadersMax) return {431, "", false};
    if (const int refusal = screen_header(line, request); refusal != 0) return {refusal, "", false};
  }
  return request;
}

std::string refusal_response(int status) {
  return fmt::format("HTTP/1.1 {} {}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", status,
                     phrase_of(status));
}

}  // namespace outbox
