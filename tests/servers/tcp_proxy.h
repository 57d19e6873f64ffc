// A way to a server that can be stalled and cut.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace outbox::testing {

// Listens on a free loopback port and passes everything on to another one.
class TcpProxy {
 public:
  explicit TcpProxy(std::uint16_t target);
  ~TcpProxy();
  TcpProxy(const TcpProxy&) = delete;
  TcpProxy& operator=(const TcpProxy&) = delete;

  std::uint16_t port() const { return port_; }
  // Passes nothing on, either way, and says nothing about it.
  void stall() { stalled_ = true; }
  void resume() { stalled_ = false; }
  // Bytes that have arrived, from either side, and were not passed on.
  std::size_t waiting();
  // Cuts what is connected.
  void cut();
  // Cuts, and refuses whoever comes.
  void close();
  std::size_t connections() const { return connections_; }
  // Bytes that were passed on, either way.
  std::size_t passed() const { return passed_; }

 private:
  void serve();
  void pump(int from, int to);

  const std::uint16_t target_;
  std::uint16_t port_ = 0;
  std::atomic<int> listener_ = -1;
  std::atomic<bool> stalled_ = false;
  std::atomic<bool> over_ = false;
  std::atomic<std::size_t> connections_ = 0;
  std::atomic<std::size_t> passed_ = 0;
  std::mutex mutex_;
  std::vector<int> sockets_;          // guarded by mutex_
  std::vector<std::thread> threads_;  // guarded
  std::thread server_;
};

}  // namespace outbox::testing
