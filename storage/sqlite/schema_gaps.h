// What of the schema is missing, found by comparing the database with one made from our statements.
#pragma once

#include <string>
#include <vector>

#include "storage/mapping/mapping.h"
#include "storage/sqlite/connection.h"

namespace outbox::sqlite {

struct SchemaGap {
  enum class Kind { table, column, index, version };
  Kind kind = Kind::table;
  bool own = false;       // of the relay's own tables
  std::string table;      // where it is missing
  std::string object;     // the table, column or index
  bool unfit = false;     // an index of that name is there, but the relay's queries can't use it
  std::string statement;  // closes the gap; empty where a person has to decide
};

// In the order in which the statements can be run. Throws SQLite::Exception.
std::vector<SchemaGap> schema_gaps(Connection& connection, const Mapping& mapping);

// Where the relay's own tables are missing, makes them for this connection alone, in memory: so
// that the rest can be looked at before a relay was ever started.
void pretend_relay_tables(Connection& connection, const std::vector<SchemaGap>& gaps);

// For whoever only looks at an outbox on which no relay may have begun yet: pretends the relay's
// own tables, if they are missing. Throws NewerTables, and OtherVersion if an older program made
// them.
void prepare_to_look(Connection& connection, const Mapping& mapping);

// Version of the relay's own tables; 0 if there are none, or nothing says so.
std::int64_t relay_schema_major(Connection& connection);

// The same as statements, and whether the outbox can be worked with. Throws SQLite::Exception,
// and NewerTables where there is nothing to compare with.
SchemaCheck compare_schema(Connection& connection, const Mapping& mapping);

// The statements of all gaps, one behind the other; a comment where there is none.
std::string statements_of(const std::vector<SchemaGap>& gaps);

}  // namespace outbox::sqlite
