// What is SQLite's own about mapping a table.
#pragma once

#include <vector>

#include "storage/mapping/mapping.h"
#include "storage/sqlite/dialect.h"

namespace outbox::sqlite {

const Dialect& dialect();

// See outbox::mapping_of() and outbox::resolve(). The order of a table is that of its rowid.
Mapping mapping_of(const StoreSettings& settings);
Mapping resolved(Mapping mapping, const std::vector<TableColumn>& columns);

}  // namespace outbox::sqlite
