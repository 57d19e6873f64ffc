// The store's side on PostgreSQL without the relay: the quickest loop that keeps its promises.
#pragma once

#include <cstddef>
#include <string>

#include "tests/bench/report.h"

namespace outbox::bench {

struct RawPostgresOptions {
  std::string url;
  std::size_t batch = 100;
};

// Leases and settles all pending rows, batch after batch: one transaction writes off the batch
// before and leases the next. Nothing is done with the rows but to read them whole. Throws
// std::runtime_error.
Drained run_raw_postgres(const RawPostgresOptions& options);

}  // namespace outbox::bench
