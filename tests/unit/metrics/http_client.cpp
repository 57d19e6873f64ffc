#include "http_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <sstream>

namespace outbox {

namespace {

bool readable_within(int fd, std::chrono::milliseconds time) {
  pollfd waited{fd, POLLIN, 0};
  return poll(&waited, 1, static_cast<int>(time.count())) > 0;
}

}  // namespace

HttpAnswer parse_answer(const std::string& raw) {
  HttpAnswer answer;
  answer.raw = raw;
  const std::size_t end = raw.find("\r\n\r\n");
  if (end == std::string::npos) return answer;
  answer.body = raw.substr(end + 4);
  std::istringstream lines(raw.substr(0, end));
  std::string line;
  std::getline(lines, line);
  if (line.starts_with("HTTP/1.1 ")) answer.status = std::stoi(line.substr(9));
  while (std::getline(lines, line)) {
    if (line.ends_with('\r')) line.pop_back();
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos) answer.headers[line.substr(0, colon)] = line.substr(colon + 2);
  }
  return answer;
}

RawConnection::RawConnection(std::uint16_t port, bool ipv6)
    : fd_(socket(ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const int on = 1;
  setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (ipv6) {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(port);
    address.sin6_addr = in6addr_loopback;
    connected_ = connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  } else {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
}

bool RawConnection::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

std::string RawConnection::read_to_end(std::chrono::milliseconds time_max) {
  const auto deadline = std::chrono::steady_clock::now() + time_max;
  std::string all;
  std::array<char, 4096> chunk;
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0 || !readable_within(fd_.get(), left)) return all;
    const ssize_t got = recv(fd_.get(), chunk.data(), chunk.size(), 0);
    ended_in_order_ = got == 0;
    if (got <= 0) return all;
    all.append(chunk.data(), static_cast<std::size_t>(got));
  }
}

std::string RawConnection::read_until(std::string_view text) {
  std::string all;
  char next = 0;
  while (all.find(text) == std::string::npos &&
         readable_within(fd_.get(), std::chrono::seconds{10})) {
    if (recv(fd_.get(), &next, 1, 0) <= 0) break;
    all += next;
  }
  return all;
}

bool RawConnection::closed() const {
  if (!readable_within(fd_.get(), std::chrono::milliseconds{0})) return false;
  std::array<char, 512> chunk;
  return recv(fd_.get(), chunk.data(), chunk.size(), MSG_DONTWAIT) <= 0;
}

HttpAnswer ask(std::uint16_t port, const std::string& request) {
  RawConnection connection(port);
  connection.send(request);
  return parse_answer(connection.read_to_end());
}

HttpAnswer get(std::uint16_t port, const std::string& target) {
  return ask(port, "GET " + target + " HTTP/1.1\r\nHost: relay\r\nConnection: close\r\n\r\n");
}

}  // namespace outbox
