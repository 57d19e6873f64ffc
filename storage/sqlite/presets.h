// The outbox tables that the relay knows by name.
#pragma once

#include <string>
#include <vector>

#include "storage/sqlite/mapping.h"

namespace outbox::sqlite {

// Without a table's name. Nothing is resolved yet.
const std::vector<Mapping>& presets();

}  // namespace outbox::sqlite
