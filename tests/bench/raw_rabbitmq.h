// The broker's side on RabbitMQ without the relay: the same messages with the same client library.
#pragma once

#include <cstddef>
#include <string>

#include "tests/bench/report.h"

namespace outbox::bench {

struct RawRabbitmqOptions {
  int port = 0;
  std::string events;
  std::size_t window = 128;
  std::size_t count = 0;
  double rate = 0;     // messages a second; 0: as fast as they go
  std::string record;  // file for start and confirm of each message; empty: none
};

// Publishes `count` persistent events with confirms, so many at a time as the window says. Throws
// std::runtime_error if one of them is not confirmed.
Drained run_raw_rabbitmq(const RawRabbitmqOptions& options);

}  // namespace outbox::bench
