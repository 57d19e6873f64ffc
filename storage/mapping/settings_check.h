// All that is wrong with the settings of a store, found without a database.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "relay/backends.h"
#include "storage/mapping/mapping.h"

namespace outbox {

// `read_url` throws SettingsError for a URL that can't be one.
std::vector<SettingDefect> check_settings(const StoreSettings& settings, const Dialect& dialect,
                                          const std::function<void(const std::string&)>& read_url);

}  // namespace outbox
