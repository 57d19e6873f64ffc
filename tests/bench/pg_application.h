// The application on PostgreSQL: inserts events into the outbox, one in a transaction.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "tests/bench/report.h"

namespace outbox::bench {

struct PgApplicationOptions {
  std::string url;
  std::string events;
  std::chrono::microseconds period{5000};  // from one transaction's planned start to the next's
  std::size_t commits = 0;
  std::string record;  // file for begin and return of each commit
};

// Throws std::runtime_error.
Drained run_pg_application(const PgApplicationOptions& options);

}  // namespace outbox::bench
