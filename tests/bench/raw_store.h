// The store's side without the relay: the quickest loop that keeps the relay's promises.
#pragma once

#include <cstddef>
#include <string>

#include "tests/bench/report.h"

namespace outbox::bench {

struct RawStoreOptions {
  std::string database;
  std::size_t batch = 100;
};

// Leases and settles all pending rows, batch after batch: one transaction writes off the batch
// before and leases the next, durably. Nothing is done with the rows but to read them whole.
// Throws SQLite::Exception.
Drained run_raw_store(const RawStoreOptions& options);

}  // namespace outbox::bench
