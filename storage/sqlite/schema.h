// The outbox table and the relay's own tables beside it: creating and checking them.
#pragma once

#include <string>
#include <vector>

#include "storage/mapping/mapping.h"
#include "storage/sqlite/connection.h"

namespace outbox::sqlite {

// Version of the relay's own tables. A program runs on its own major version and the one before.
constexpr int kSchemaMajor = 1;

// Statements for the sqlite3 shell: the outbox and its indexes (none for a foreign one), the
// relay's tables. All of them leave alone what exists.
std::string outbox_ddl(const Mapping& mapping);
std::string relay_ddl();
std::string complete_ddl(const Mapping& mapping);

// The mapping as it is in this database: names as the table spells them. The table's is the key of
// the relay's own rows. Throws Unusable if there is no such table, it lacks columns, rows can't be
// told apart, or it is a view or a table without rowid.
Mapping require_outbox(Connection& connection, Mapping mapping);

// The application's tables, by name.
std::vector<std::string> tables_of(Connection& connection);

std::vector<TableColumn> columns_of(Connection& connection, const std::string& table);

// Throws NewerTables if the relay's tables are there and of a version that this program does not
// know.
void require_known_version(Connection& connection);

// Whether the relay's tables are there, and none lacks a column.
bool relay_tables_complete(Connection& connection);

// Makes sure that the relay's tables are there and of a version that this program knows. Creates
// them if it may; throws Unusable if not.
void require_relay_tables(Connection& connection, bool may_create);

// Creates everything that is missing, the file, too; beside a foreign table only the relay's own.
// Throws SQLite::Exception or Unusable, and has then changed nothing but the file's journal mode.
void apply_schema(const std::string& path, const Mapping& mapping);

}  // namespace outbox::sqlite
