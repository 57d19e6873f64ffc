// What doctors of all databases say in the same words.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "relay/inspection.h"
#include "storage/mapping/times.h"

namespace outbox {

// "1 row", "2 rows".
std::string counted(std::uint64_t number, const char* noun);

// `newest`: when the last event occurred, by the application's clock. Nothing: all is well.
std::optional<Finding> judge_clock(WallTime newest, WallTime now,
                                   const std::string& whose = "this machine's");

// Leases of relays that have died.
std::optional<Finding> judge_relays(const std::vector<RelaySeen>& relays);

// What an operator has ordered.
std::vector<Finding> judge_orders(const StoreOverview& orders);

// A foreign table with so many old rows that nobody has said anything about.
Finding not_adopted(const std::string& table, std::uint64_t old, bool ageless);
Finding adopted_as_another(const std::string& table, const std::string& difference);

}  // namespace outbox
