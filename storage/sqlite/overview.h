// Who is at work on an outbox, and what went wrong of late.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "relay/backends.h"
#include "storage/sqlite/connection.h"
#include "storage/sqlite/times.h"

namespace outbox::sqlite {

// The relays that have a row in outbox_relay_incarnations, the newest first. Throws
// SQLite::Exception.
std::vector<RelaySeen> relays_seen(Connection& connection, const std::string& outbox,
                                   const Clocks& clocks);

// The one that has the lease of a row. Throws SQLite::Exception.
std::optional<RelaySeen> holder_of(Connection& connection, const std::string& outbox,
                                   const Value& key, const Clocks& clocks);

// What an operator has ordered: isolated, paused, and why. Throws SQLite::Exception.
void read_orders(Connection& connection, const std::string& outbox, StoreOverview& overview);

// Opens a connection of its own for the question. Never throws.
Answer<StoreOverview> overview_of(const StoreSettings& settings);

}  // namespace outbox::sqlite
