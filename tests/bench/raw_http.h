// The broker's side without the relay: the same requests with the same client library.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "tests/bench/report.h"

namespace outbox::bench {

struct RawHttpOptions {
  int port = 0;
  std::string events;
  std::size_t connections = 4;
  std::size_t count = 0;
  double rate = 0;     // messages a second over all connections; 0: as fast as they go
  std::string record;  // file for start and end of each request; empty: none
};

// Posts `count` events over keep-alive connections, one thread each. Throws std::runtime_error if
// one of them is not accepted.
Drained run_raw_http(const RawHttpOptions& options);

}  // namespace outbox::bench
