// Conditions on a row's state, as far as the columns of its table tell.
#pragma once

#include <string>

#include "storage/mapping/mapping.h"

namespace outbox::sqlite {

// All take what stands before a column's name: "o." in a query, nothing where an index is made,
// which SQLite uses only if its condition is the query's. "0" and "1" where the table can't tell.

// Where the columns can't hold when a failed row is due, failed rows that the relay knows nothing
// of are pending ones.
std::string is_pending(const Mapping& mapping, const std::string& alias);
std::string is_failed(const Mapping& mapping, const std::string& alias);
std::string is_processed(const Mapping& mapping, const std::string& alias);
std::string is_dead(const Mapping& mapping, const std::string& alias);
// Neither Processed nor given up: what may still be sent.
std::string is_open(const Mapping& mapping, const std::string& alias);

// A state as it stands in the status column.
std::string state_literal(const Mapping& mapping, const std::string& state);

}  // namespace outbox::sqlite
