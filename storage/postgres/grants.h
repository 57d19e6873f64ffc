// What a role may do, and what a relay and its commands need.
#pragma once

#include <string>
#include <vector>

#include "relay/backends.h"
#include "storage/postgres/table.h"

namespace outbox::postgres {

// One privilege.
struct Need {
  enum class Kind { schema, table, columns, sequence };
  Kind kind = Kind::table;
  std::string object;     // as SQL names it
  std::string privilege;  // SELECT, USAGE, ...
  std::vector<std::string> columns{};
  std::string purpose{};  // for people
  bool optional = false;  // only some commands need it

  std::string grant(const std::string& role) const;
};

// The outbox's columns that a relay or an operator writes.
std::vector<std::string> written_columns(const Mapping& mapping);

// All that is needed for this table, and nothing else.
std::vector<Need> needs_of(const Table& table);

// Those that the session's role lacks.
std::vector<Need> missing_needs(Connection& connection, const Table& table);

// GRANT statements for a role, or the user in the URL if its name is empty. Connects, for the names
// that the table really has.
Answer<std::string> grants(const StoreSettings& settings, const std::string& role);

}  // namespace outbox::postgres
