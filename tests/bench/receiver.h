// An HTTP receiver that costs as little as possible, so that it is not what is measured.
#pragma once

#include <string>

namespace outbox::bench {

struct ReceiverOptions {
  std::string record;  // file for when each request was answered; empty: none
};

// Accepts every POST with 200. Prints its port as JSON, serves until stdin ends, then prints how
// many requests it answered. Throws std::system_error or std::runtime_error.
void run_receiver(const ReceiverOptions& options);

}  // namespace outbox::bench
