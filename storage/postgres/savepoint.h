// Changes of single rows that may refuse to be changed.
#pragma once

#include <string>

#include "storage/postgres/connection.h"

namespace outbox::postgres {

// Inside a write transaction: a row that refuses to be written, for a trigger or a constraint,
// spoils no other. Returns what `change` does; false for a refusal, which is told.
template <class Change>
bool carefully(Connection& connection, const Change& change, std::string& refusal) {
  connection.command("SAVEPOINT careful");
  try {
    const bool changed = change();
    // What would be looked at no sooner than at the commit, and refuse all rows.
    connection.command("SET CONSTRAINTS ALL IMMEDIATE; RELEASE SAVEPOINT careful");
    return changed;
  } catch (const ServerError& error) {
    if (!is_refusal(error)) throw;
    connection.command("ROLLBACK TO SAVEPOINT careful; RELEASE SAVEPOINT careful");
    refusal = error.what();
    return false;
  }
}

}  // namespace outbox::postgres
