// What a measurement has to say, as one line of JSON on stdout.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/bench/stopwatch.h"

namespace outbox::bench {

struct Drained {
  std::uint64_t count = 0;
  Seconds elapsed{0};
  Seconds cpu{0};
};

void print(const Drained& drained);

// One thing that happened to one message, for whoever joins several processes' records.
struct Instant {
  std::string id;
  std::int64_t from = 0;  // nanoseconds, see stopwatch.h
  std::int64_t to = 0;
};

// One line each: id, from, to. Throws std::runtime_error when the file can't be written.
void write_record(const std::string& path, const std::vector<Instant>& record);

}  // namespace outbox::bench
