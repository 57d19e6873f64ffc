#include "tests/bench/receiver.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <memory>
#include <string_view>
#include <vector>

#include "tests/bench/report.h"
#include "tests/bench/socket.h"
#include "tests/bench/stopwatch.h"

namespace outbox::bench {
namespace {

constexpr std::string_view kAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
constexpr std::string_view kEndOfHead = "\r\n\r\n";
constexpr std::size_t kReadSize = 64 << 10;

// The value of a header that both the relay and the raw client spell like this.
std::string_view header_of(std::string_view head, std::string_view name) {
  const std::size_t at = head.find(name);
  if (at == std::string_view::npos) return {};
  head.remove_prefix(at + name.size());
  return head.substr(0, head.find("\r\n"));
}

struct Peer {
  explicit Peer(int handle) : socket(handle) { socket.set_no_delay(); }
  Socket socket;
  std::string input;
};

class Receiver {
 public:
  explicit Receiver(const ReceiverOptions& options)
      : recording_(!options.record.empty()), listener_(listen_anywhere()) {}

  std::uint16_t port() const { return port_of(listener_); }
  std::uint64_t answered() const { return answered_; }
  const std::vector<Instant>& record() const { return record_; }

  void serve_until_stdin_ends() {
    while (serve_once()) {
    }
  }

 private:
  bool serve_once() {
    watched_.clear();
    watched_.push_back({STDIN_FILENO, POLLIN, 0});
    watched_.push_back({listener_.handle(), POLLIN, 0});
    for (const auto& peer : peers_) watched_.push_back({peer->socket.handle(), POLLIN, 0});
    if (poll(watched_.data(), watched_.size(), -1) < 0) return errno == EINTR;
    if (watched_[0].revents != 0) return false;
    for (std::size_t i = watched_.size(); i-- > 2;) {
      if (watched_[i].revents == 0 || serve(*peers_[i - 2])) continue;
      peers_.erase(peers_.begin() + static_cast<std::ptrdiff_t>(i - 2));
    }
    if (watched_[1].revents != 0) admit();
    return true;
  }

  void admit() {
    const int handle = accept4(listener_.handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (handle >= 0) peers_.push_back(std::make_unique<Peer>(handle));
  }

  // False when the connection is over.
  bool serve(Peer& peer) {
    const ssize_t count = recv(peer.socket.handle(), chunk_.data(), chunk_.size(), 0);
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    if (count == 0) return false;
    peer.input.append(chunk_.data(), static_cast<std::size_t>(count));
    while (const std::size_t size = request_size(peer.input)) {
      if (!answer(peer)) return false;
      peer.input.erase(0, size);
    }
    return true;
  }

  // The size of the first request, 0 while it is not complete.
  static std::size_t request_size(std::string_view input) {
    const std::size_t head_end = input.find(kEndOfHead);
    if (head_end == std::string_view::npos) return 0;
    const std::string_view length = header_of(input.substr(0, head_end), "\r\nContent-Length: ");
    std::size_t body = 0;
    std::from_chars(length.data(), length.data() + length.size(), body);
    const std::size_t size = head_end + kEndOfHead.size() + body;
    return input.size() < size ? 0 : size;
  }

  bool answer(const Peer& peer) {
    const ssize_t sent = send(peer.socket.handle(), kAnswer.data(), kAnswer.size(), MSG_NOSIGNAL);
    if (sent != static_cast<ssize_t>(kAnswer.size())) return false;
    ++answered_;
    if (!recording_) return true;
    const std::int64_t now = nanoseconds(Clock::now());
    record_.push_back({std::string(header_of(peer.input, "\r\nIdempotency-Key: ")), now, now});
    return true;
  }

  const bool recording_;
  Socket listener_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<pollfd> watched_;
  std::array<char, kReadSize> chunk_{};
  std::uint64_t answered_ = 0;
  std::vector<Instant> record_;
};

}  // namespace

void run_receiver(const ReceiverOptions& options) {
  Receiver receiver(options);
  fmt::print("{{\"port\": {}}}\n", receiver.port());
  std::fflush(stdout);
  receiver.serve_until_stdin_ends();
  if (!options.record.empty()) write_record(options.record, receiver.record());
  fmt::print("{{\"count\": {}}}\n", receiver.answered());
}

}  // namespace outbox::bench
