// The outbox table as the database has it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "storage/mapping/mapping.h"
#include "storage/postgres/dialect.h"
#include "storage/postgres/query.h"

namespace outbox::postgres {

struct Table {
  std::string schema;
  std::string relay_schema{};  // of the relay's tables; empty: the same
  std::int64_t oid = 0;
  Mapping mapping;  // names as the table spells them; its `table` is the key of the relay's rows
  std::vector<TableColumn> columns;
  bool partitioned = false;

  // A column's type as SQL spells it; empty if there is no such column.
  std::string type_of(const std::string& column) const;
  std::string qualified() const { return quoted(schema) + "." + quoted(mapping.table); }
  // A table of the relay's, beside this one.
  std::string beside(const std::string& name) const {
    return quoted(relay_schema.empty() ? schema : relay_schema) + "." + name;
  }
  // In CREATE INDEX, so that the application can go on writing: not where the server can't do that.
  const char* concurrently() const { return partitioned ? "" : "CONCURRENTLY "; }
  // Like Mapping's; a due time is needed as a type that holds one.
  bool holds_failed() const;
};

// Where a table of that name is, if it is there: the schema as the catalogue spells it, or the one
// that would be taken for a new one.
struct Found {
  std::string schema;
  std::string table;
  std::int64_t oid = 0;  // 0: there is none
  std::string kind;      // as pg_class has it
};
Found find_table(Connection& connection, const TableName& name);

// The columns that can be selected by name, in their order.
std::vector<TableColumn> columns_of(Connection& connection, std::int64_t oid);

// The mapping as it is in this database. Throws Unusable if there is no such table, it lacks
// columns, rows can't be told apart, or it is a view.
Table require_outbox(Connection& connection, const StoreSettings& settings);

}  // namespace outbox::postgres
