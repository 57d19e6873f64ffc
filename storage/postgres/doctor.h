// Looks for everything about a database that may keep a relay from working well.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "relay/backends.h"

namespace outbox::postgres {

// See StoreBackend::inspect. Changes nothing.
std::vector<Finding> inspect(const StoreSettings& settings);

// The parts of an index's definition that decide what it can be used for, however it is written:
// without quotes, parentheses, casts and spaces. Exposed for its test.
std::string bare(const std::string& sql);

// Whether a plan, as EXPLAIN (FORMAT JSON) prints it, reads that table from one end to the other.
bool reads_all(const std::string& plan, const std::string& table);

}  // namespace outbox::postgres
