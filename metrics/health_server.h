// The server that Prometheus and the kubelet ask: /metrics, /livez, /readyz and /startupz.
//
//   MyHealthSource source(status_board, ...);                 // see metrics/health.h
//   HealthServer server({.listen = "0.0.0.0:9711"}, metrics, source);
//
// It answers within 100 ms while 200 slow connections are open: each has a thread of its own and
// two seconds. A probe's answer is 200 or 503; `?verbose=1` gives all that is known as JSON, which
// /readyz always does.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "metrics/connection_pool.h"
#include "metrics/health.h"
#include "metrics/metrics.h"
#include "relay/clock.h"

namespace outbox {

struct HealthServerOptions {
  std::string listen = "0.0.0.0:9711";                   // port 0: any free one
  std::string setting = "http.listen";                   // what error texts call it
  Duration request_time_max = std::chrono::seconds{2};   // from the first to the last byte read
  Duration response_time_max = std::chrono::seconds{2};  // likewise written
  std::size_t requests_max = 16;                         // on one connection
  PoolOptions pool;
};

class HealthServer {
 public:
  // Listens and answers from here on. Throws SettingsError when it can't listen, for instance since
  // another relay has the port. The references outlive the server.
  HealthServer(const HealthServerOptions& options, Metrics& metrics, const HealthSource& source);
  // Ends all connections.
  ~HealthServer();
  HealthServer(const HealthServer&) = delete;
  HealthServer& operator=(const HealthServer&) = delete;

  std::uint16_t port() const;

 private:
  class Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace outbox
