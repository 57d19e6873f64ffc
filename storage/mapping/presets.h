// The outbox tables that the relay knows by name.
#pragma once

#include <string>
#include <vector>

#include "storage/mapping/mapping.h"

namespace outbox {

// Without a table's name. Nothing is resolved yet.
std::vector<Mapping> presets(const Dialect& dialect);

}  // namespace outbox
