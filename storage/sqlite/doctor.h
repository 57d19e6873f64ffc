// Looks for everything about a database that may keep a relay from working well.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "relay/backends.h"
#include "storage/sqlite/location.h"
#include "storage/sqlite/times.h"

namespace outbox::sqlite {

// See StoreBackend::inspect. Changes nothing.
std::vector<Finding> inspect(const StoreSettings& settings);

// The single judgements, for what a test can't arrange on a real machine. Nothing: all is well.
std::optional<Finding> judge_file_system(const FileSystem& file_system, const std::string& path);
std::optional<Finding> judge_free_space(std::uint64_t free_bytes, const std::string& path);

// Whether the trigger of that statement fires when one of these columns is updated.
bool fires_on_update(const std::string& trigger_sql, const std::vector<std::string>& columns);

}  // namespace outbox::sqlite
