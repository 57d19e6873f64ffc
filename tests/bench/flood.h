// Finds out what the receiver can take: the leanest possible client.
#pragma once

#include <cstddef>
#include <string>

#include "tests/bench/report.h"

namespace outbox::bench {

struct FloodOptions {
  int port = 0;
  std::string events;
  std::size_t connections = 4;
  std::size_t count = 0;
};

// Sends requests that were prepared before, one at a time on each connection: one write, one read.
// Throws std::runtime_error when the receiver does not answer.
Drained run_flood(const FloodOptions& options);

}  // namespace outbox::bench
