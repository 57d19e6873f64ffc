// Who is at work on an outbox, and what went wrong of late.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "relay/backends.h"
#include "storage/postgres/sql.h"

namespace outbox::postgres {

// The relays that have a row in outbox_relay_incarnations, the newest first.
std::vector<RelaySeen> relays_seen(Connection& connection, const Sql& sql, const std::string& now);

// The one that has the lease of a row.
std::optional<RelaySeen> holder_of(Connection& connection, const Sql& sql, const std::string& key,
                                   const std::string& now);

// What an operator has ordered: isolated, paused, and why.
void read_orders(Connection& connection, const Sql& sql, StoreOverview& overview);

// Opens a connection of its own for the question. Never throws.
Answer<StoreOverview> overview_of(const StoreSettings& settings);

}  // namespace outbox::postgres
