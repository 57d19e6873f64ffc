#include "tests/conformance/postgres_gate.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace outbox::conformance::isolation {
namespace {

constexpr std::string_view kFlush{"H\0\0\0\4", 5};

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

void send_all(int socket, const std::string& bytes) {
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t now = ::send(socket, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (now <= 0) return;  // the other side is gone: it will be seen when reading
    sent += static_cast<std::size_t>(now);
  }
}

// Adds what has arrived. False: the connection is at its end.
bool receive(int socket, std::string& bytes) {
  std::array<char, 65536> buffer{};
  const ssize_t got = ::recv(socket, buffer.data(), buffer.size(), 0);
  if (got <= 0) return false;
  bytes.append(buffer.data(), static_cast<std::size_t>(got));
  return true;
}

std::uint32_t number_at(const std::string& bytes, std::size_t at) {
  std::uint32_t number = 0;
  for (std::size_t i = at; i < at + 4; ++i) {
    number = number << 8 | static_cast<unsigned char>(bytes[i]);
  }
  return number;
}

// Of the message that begins there: a letter, and a length that counts itself. 0: not all of it has
// arrived.
std::size_t message_size(const std::string& bytes, std::size_t at) {
  if (bytes.size() < at + 5) return 0;
  const std::size_t size = 1 + number_at(bytes, at + 1);
  return bytes.size() < at + size ? 0 : size;
}

}  // namespace

PostgresGate::PostgresGate(std::uint16_t server, bool as_pooler)
    : server_port_(server), as_pooler_(as_pooler) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(listener_, 1) != 0 ||
      ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw std::runtime_error("the gate can't listen");
  }
  port_ = ntohs(address.sin_port);
}

PostgresGate::~PostgresGate() {
  cut();
  ::close(listener_);
}

void PostgresGate::cut() {
  if (client_ >= 0) ::close(client_);
  if (server_ >= 0) ::close(server_);
  client_ = server_ = -1;
  ready_ = failed_ = false;
  awaits_ = Awaits::nothing;
  held_.reset();
  from_client_.clear();
  from_server_.clear();
}

bool PostgresGate::pump(int milliseconds, int wakes) {
  std::array<pollfd, 4> ready{pollfd{wakes, POLLIN, 0}, pollfd{listener_, POLLIN, 0},
                              pollfd{client_, POLLIN, 0}, pollfd{server_, POLLIN, 0}};
  if (::poll(ready.data(), ready.size(), milliseconds) <= 0) return false;
  if (ready[1].revents != 0) accept();
  if (ready[3].revents != 0 && server_ == ready[3].fd) read_server();
  if (ready[2].revents != 0 && client_ == ready[2].fd) read_client();
  return true;
}

void PostgresGate::accept() {
  cut();
  client_ = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  server_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(server_port_);
  if (::connect(server_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return cut();
  }
  const int on = 1;
  for (const int socket : {client_, server_}) {
    ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
}

void PostgresGate::read_client() {
  if (!receive(client_, from_client_)) return cut();
  if (!ready_) return send_all(server_, std::exchange(from_client_, {}));
  take_request();
}

// Statements stop one by one, also those that were sent together: the server is asked to answer
// each at once.
void PostgresGate::take_request() {
  std::size_t at = 0;
  while (const std::size_t size = free() ? message_size(from_client_, at) : 0) {
    const char kind = from_client_[at];
    note_text(at);
    at += size;
    if (kind == 'X') return cut();
    const bool executes = kind == 'Q' || (kind == 'E' && !failed_);
    if (!executes && kind != 'S') continue;
    held_ = from_client_.substr(0, at);
    from_client_.erase(0, at);
    at = 0;
    if (kind == 'E') *held_ += kFlush;
    awaited_next_ = kind == 'E' ? Awaits::statement : Awaits::ready;
    if (!executes) let_through();
  }
}

// A query is a text; what is prepared has a name, and then a text; what is bound, a portal and a
// name.
void PostgresGate::note_text(std::size_t at) {
  const char kind = from_client_[at];
  const std::string first = from_client_.c_str() + at + 5;
  if (kind == 'Q') statement_ = first;
  if (kind != 'P' && kind != 'B') return;
  const std::string second = from_client_.c_str() + at + 5 + first.size() + 1;
  if (kind == 'P') prepared_[first] = second;
  statement_ = kind == 'P' ? second : prepared_[second];
}

void PostgresGate::let_through() {
  awaits_ = awaited_next_;
  send_all(server_, *std::exchange(held_, std::nullopt));
}

void PostgresGate::read_server() {
  if (!receive(server_, from_server_)) return cut();
  std::size_t at = 0;
  while (const std::size_t size = message_size(from_server_, at)) {
    const char kind = from_server_[at];
    if (kind == 'K') {
      process_ = number_at(from_server_, at + 5);
      if (as_pooler_) from_server_[at + 5] = static_cast<char>(from_server_[at + 5] ^ 0x40);
    }
    take_answer(kind);
    at += size;
  }
  send_all(client_, from_server_.substr(0, at));
  from_server_.erase(0, at);
  if (ready_ && awaits_ == Awaits::nothing) take_request();
}

void PostgresGate::take_answer(char kind) {
  if (kind == 'Z') {
    ready_ = true;
    failed_ = false;
    awaits_ = Awaits::nothing;
  }
  if (awaits_ != Awaits::statement) return;
  failed_ = kind == 'E';
  if (failed_ || kind == 'C' || kind == 'I') awaits_ = Awaits::nothing;
}

}  // namespace outbox::conformance::isolation
