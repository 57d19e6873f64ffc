// The application: inserts events into the outbox in transactions of its own.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "tests/bench/report.h"

namespace outbox::bench {

struct ApplicationOptions {
  std::string database;
  std::string events;
  std::size_t rows_per_commit = 1;
  std::chrono::microseconds period{5000};  // from one transaction's planned start to the next's
  std::size_t commits = 0;
  std::string record;  // file for begin and return of each commit
};

// Waits for locks as SQLite's busy handler does, five seconds at most. Throws SQLite::Exception.
Drained run_application(const ApplicationOptions& options);

}  // namespace outbox::bench
