// The outbox table and the relay's own tables beside it: creating and checking them.
#pragma once

#include <string>
#include <vector>

#include "relay/inspection.h"
#include "storage/postgres/table.h"

namespace outbox::postgres {

// Version of the relay's own tables. A program runs on its own major version and the one before.
constexpr int kSchemaMajor = 1;

// One thing that must be there, and the statement that makes it.
struct SchemaPart {
  std::string name;  // of a table, index or sequence, without its schema
  std::string statement;
};

// The outbox and its indexes (none for a foreign one); the relay's tables. With an empty schema
// they land where the search path says. All statements leave alone what exists.
std::vector<SchemaPart> outbox_parts(const Mapping& mapping, const std::string& schema);
std::vector<SchemaPart> relay_parts(const std::string& schema);
// The index that finds rows to be sent in a foreign table.
std::vector<SchemaPart> foreign_index_parts(const Table& table);

// For psql: all of them, and how relays can be told of new rows.
std::string complete_ddl(const StoreSettings& settings);

// Throws Unusable or NewerTables unless the relay's tables are there, and of a version that this
// program knows.
void require_relay_tables(Connection& connection, const std::string& schema);

// Whether the relays of an outbox can share what they know of a circuit.
bool has_verdict_columns(Connection& connection, const std::string& schema);

// Creates everything that is missing; beside a foreign table only the relay's own.
void apply_schema(Connection& connection, const StoreSettings& settings);

SchemaCheck compare_schema(Connection& connection, const StoreSettings& settings);

}  // namespace outbox::postgres
