#include "tests/bench/flood.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/bench/events.h"
#include "tests/bench/socket.h"

namespace outbox::bench {
namespace {

std::vector<std::string> prepared_requests(const std::vector<Event>& events) {
  std::vector<std::string> requests;
  requests.reserve(events.size());
  for (const Event& event : events) {
    requests.push_back(
        fmt::format("POST /inbox HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                    "Idempotency-Key: {:032x}\r\nContent-Length: {}\r\n\r\n{}",
                    requests.size(), event.payload.size(), event.payload));
  }
  return requests;
}

// The receiver's answers have no body.
bool exchange(const Socket& socket, std::string_view request) {
  while (!request.empty()) {
    const ssize_t sent = send(socket.handle(), request.data(), request.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    request.remove_prefix(static_cast<std::size_t>(sent));
  }
  std::array<char, 512> chunk{};
  std::string answer;
  while (answer.find("\r\n\r\n") == std::string::npos) {
    const ssize_t count = recv(socket.handle(), chunk.data(), chunk.size(), 0);
    if (count <= 0) return false;
    answer.append(chunk.data(), static_cast<std::size_t>(count));
  }
  return answer.starts_with("HTTP/1.1 200");
}

}  // namespace

Drained run_flood(const FloodOptions& options) {
  const std::vector<std::string> requests = prepared_requests(load_events(options.events));
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> failed = false;
  const auto work = [&](const Socket& socket) {
    std::size_t number = 0;
    while (!failed && (number = next++) < options.count) {
      if (!exchange(socket, requests[number % requests.size()])) failed = true;
    }
  };
  std::vector<std::unique_ptr<Socket>> sockets;
  for (std::size_t i = 0; i < options.connections; ++i) {
    sockets.push_back(
        std::make_unique<Socket>(connect_to(static_cast<std::uint16_t>(options.port))));
    sockets.back()->set_no_delay();
  }
  const Stopwatch watch;
  std::vector<std::thread> threads;
  for (const auto& socket : sockets) threads.emplace_back([&] { work(*socket); });
  for (std::thread& thread : threads) thread.join();
  if (failed) throw std::runtime_error("the receiver broke a connection off");
  return {options.count, watch.elapsed(), watch.cpu()};
}

}  // namespace outbox::bench
