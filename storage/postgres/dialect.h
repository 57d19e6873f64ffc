// What is PostgreSQL's own about mapping a table.
#pragma once

#include <string>

#include "storage/mapping/mapping.h"

namespace outbox::postgres {

const Dialect& dialect();

// See outbox::mapping_of().
Mapping mapping_of(const StoreSettings& settings);

// A table's name as store.table has it: table, schema.table, either part in double quotes (doubled
// where they are its own) if it has a dot or quotes.
struct TableName {
  std::string schema;  // empty: wherever the search path finds it
  std::string table;
};
// Throws SettingsError.
TableName table_name(const std::string& text);

}  // namespace outbox::postgres
