// Finding out which table of a database is an outbox.
#pragma once

#include <string>
#include <vector>

#include "relay/backends.h"
#include "storage/postgres/connection.h"

namespace outbox::postgres {

// The tables that fit a preset, the likeliest first; with `only`, that table alone, with what keeps
// it from being used. `settings` gives overrides. Reads only.
std::vector<TableProposal> detect(Connection& connection, const StoreSettings& settings,
                                  const std::string& only);

}  // namespace outbox::postgres
