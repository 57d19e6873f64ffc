#include "relay/app/demo_receiver.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

namespace outbox {

namespace {

constexpr std::size_t kHeadMax = 64 << 10;
constexpr std::size_t kBodyMax = 8 << 20;
constexpr std::size_t kReadSize = 64 << 10;
constexpr int kConnectionsMax = 64;

bool same_name(std::string_view left, std::string_view right) {
  return std::equal(left.begin(), left.end(), right.begin(), right.end(), [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? a + 32 : a) == (b >= 'A' && b <= 'Z' ? b + 32 : b);
  });
}

// The value of a header in a request's head; empty if it is not there.
std::string_view header_of(std::string_view head, std::string_view name) {
  while (!head.empty()) {
    const std::size_t end = std::min(head.find("\r\n"), head.size());
    const std::string_view line = head.substr(0, end);
    head.remove_prefix(std::min(end + 2, head.size()));
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || !same_name(line.substr(0, colon), name)) continue;
    const std::size_t start = line.find_first_not_of(" \t", colon + 1);
    return start == std::string_view::npos ? std::string_view{} : line.substr(start);
  }
  return {};
}

std::string_view answer_for(int status) {
  if (status == 204) return "HTTP/1.1 204 No Content\r\n\r\n";
  return "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 27\r\n\r\n"
         "this event makes no sense.\n";
}

// A socket that is closed when it goes out of scope. An aborted one sends a reset: a broken
// receiver does not say goodbye.
class Socket {
 public:
  explicit Socket(int handle) : handle_(handle) {}
  ~Socket() {
    if (handle_ >= 0) close(handle_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  int handle() const { return handle_; }
  void abort_on_close() const {
    const linger now{1, 0};
    setsockopt(handle_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  }

 private:
  int handle_;
};

// Bound to the port (0: any free one), so that nobody else takes it, but not yet listening. Null
// when the port can't be had.
std::unique_ptr<Socket> bound_socket(std::uint16_t port) {
  auto socket =
      std::make_unique<Socket>(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int yes = 1;
  setsockopt(socket->handle(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  if (bind(socket->handle(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return nullptr;
  }
  return socket;
}

std::uint16_t port_of(const Socket& socket) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  getsockname(socket.handle(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

}  // namespace

const char* name_of(ReceiverMood mood) {
  switch (mood) {
    case ReceiverMood::working:
      return "working";
    case ReceiverMood::refusing:
      return "down: refuses connections";
    case ReceiverMood::hanging:
      return "hangs: never answers";
  }
  return "?";
}

struct DemoReceiver::Connection {
  explicit Connection(int handle) : socket(handle) {}
  Socket socket;
  std::string input;
};

// What the receiver's thread runs. Everything in it belongs to that thread.
class DemoReceiver::Server {
 public:
  Server(DemoReceiver& owner, std::unique_ptr<Socket> bound)
      : owner_(owner), listener_(std::move(bound)) {}

  void run() {
    adopt(owner_.mood_);
    while (!owner_.ending_) {
      wait();
      if (const ReceiverMood wanted = owner_.mood_; wanted != mood_) adopt(wanted);
    }
    cut_all();
  }

 private:
  void adopt(ReceiverMood mood) {
    cut_all();
    if (mood == ReceiverMood::refusing) {
      // Only a new socket does not listen; bound again at once, so that the port stays ours.
      listener_.reset();
      listener_ = bound_socket(owner_.port_);
      listening_ = false;
    } else if (!listening_) {
      if (!listener_) listener_ = bound_socket(owner_.port_);
      listening_ = listener_ && listen(listener_->handle(), kConnectionsMax) == 0;
    }
    mood_ = mood;
  }

  void cut_all() {
    for (const auto& connection : connections_) connection->socket.abort_on_close();
    connections_.clear();
  }

  void wait() {
    std::vector<pollfd> watched{{owner_.wake_, POLLIN, 0}};
    if (listening_) watched.push_back({listener_->handle(), POLLIN, 0});
    const std::size_t first = watched.size();
    // One that hangs takes connections and reads nothing from them.
    if (mood_ == ReceiverMood::working) {
      for (const auto& connection : connections_) {
        watched.push_back({connection->socket.handle(), POLLIN, 0});
      }
    }
    // Without a listener, because its port could not be had, try again soon.
    const int patience = mood_ != ReceiverMood::refusing && !listening_ ? 100 : -1;
    if (poll(watched.data(), watched.size(), patience) <= 0) return adopt(owner_.mood_);
    if (watched[0].revents != 0) {
      std::uint64_t count = 0;
      [[maybe_unused]] const auto drained = read(owner_.wake_, &count, sizeof count);
      return;
    }
    for (std::size_t at = watched.size(); at-- > first;) {
      if (watched[at].revents != 0 && !serve(*connections_[at - first])) {
        connections_.erase(connections_.begin() + static_cast<std::ptrdiff_t>(at - first));
      }
    }
    if (listening_ && watched[1].revents != 0) admit();
  }

  void admit() {
    const int handle = accept4(listener_->handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (handle < 0) return;
    auto connection = std::make_unique<Connection>(handle);
    const int yes = 1;
    setsockopt(handle, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (connections_.size() < kConnectionsMax) connections_.push_back(std::move(connection));
  }

  // False when the connection is over.
  bool serve(Connection& connection) {
    char chunk[kReadSize];
    const ssize_t got = recv(connection.socket.handle(), chunk, sizeof chunk, 0);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) return false;
    connection.input.append(chunk, static_cast<std::size_t>(got));
    for (;;) {
      const auto more = answer_one(connection);
      if (!more) return false;
      if (!*more) return true;
    }
  }

  // Answers the first request that has come in whole: true if there was one, false if more must be
  // read first, nothing if this peer makes no sense.
  std::optional<bool> answer_one(Connection& connection) {
    const std::size_t head_end = connection.input.find("\r\n\r\n");
    if (head_end == std::string::npos) {
      if (connection.input.size() > kHeadMax) return std::nullopt;
      return false;
    }
    const std::string_view head = std::string_view(connection.input).substr(0, head_end);
    const std::string_view text = header_of(head, "content-length");
    std::size_t length = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), length);
    if (parsed.ec != std::errc{} || length > kBodyMax) return std::nullopt;
    const std::size_t body_start = head_end + 4;
    if (connection.input.size() < body_start + length) return false;
    const int status = owner_.take(std::string(header_of(head, "idempotency-key")),
                                   connection.input.substr(body_start, length));
    connection.input.erase(0, body_start + length);
    const std::string_view answer = answer_for(status);
    // An answer this short fits any socket's buffer; a peer that went away is none of our concern.
    const ssize_t sent =
        send(connection.socket.handle(), answer.data(), answer.size(), MSG_NOSIGNAL);
    if (sent != static_cast<ssize_t>(answer.size())) return std::nullopt;
    return true;
  }

  DemoReceiver& owner_;
  std::unique_ptr<Socket> listener_;
  bool listening_ = false;
  ReceiverMood mood_ = ReceiverMood::working;
  std::vector<std::unique_ptr<Connection>> connections_;
};

DemoReceiver::DemoReceiver() {
  auto bound = bound_socket(0);
  if (!bound || listen(bound->handle(), kConnectionsMax) != 0) {
    throw std::system_error(errno, std::generic_category(), "the receiver can't listen");
  }
  port_ = port_of(*bound);
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
  server_ = std::make_unique<Server>(*this, std::move(bound));
  thread_ = std::thread([this] { server_->run(); });
}

DemoReceiver::~DemoReceiver() {
  ending_ = true;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = write(wake_, &one, sizeof one);
  thread_.join();
  close(wake_);
}

void DemoReceiver::set_mood(ReceiverMood mood) {
  mood_ = mood;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = write(wake_, &one, sizeof one);
}

void DemoReceiver::refuse_event(const std::string& id) {
  const std::lock_guard lock(mutex_);
  refuse_.insert(id);
}

void DemoReceiver::accept_all() {
  const std::lock_guard lock(mutex_);
  refuse_.clear();
}

ReceiverTally DemoReceiver::tally() const {
  const std::lock_guard lock(mutex_);
  return tally_;
}

std::unordered_map<std::string, std::size_t> DemoReceiver::accepted() const {
  const std::lock_guard lock(mutex_);
  return accepted_;
}

int DemoReceiver::take(const std::string& id, const std::string& body) {
  const std::lock_guard lock(mutex_);
  if (refuse_.contains(id)) {
    tally_.refused += 1;
    return 400;
  }
  const bool first = accepted_.emplace(id, std::hash<std::string>{}(body)).second;
  (first ? tally_.received : tally_.repeated) += 1;
  return 204;
}

}  // namespace outbox
