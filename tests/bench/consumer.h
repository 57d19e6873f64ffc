// A consumer of the queue: notes when each message arrives.
#pragma once

#include <cstddef>
#include <string>

namespace outbox::bench {

struct ConsumerOptions {
  int port = 0;
  std::size_t count = 0;
  std::string record;  // file for when each message arrived
};

// Takes so many messages, or until stdin ends, without acknowledging them. Prints its port as JSON
// when it is subscribed, and at its end how many there were. Throws std::runtime_error.
void run_consumer(const ConsumerOptions& options);

}  // namespace outbox::bench
