// The statements that change the outbox's own rows.
#pragma once

#include <string>

#include "storage/postgres/sql.h"

namespace outbox::postgres {

// All of them take the rows as arrays: $1 their keys, $2 the fingerprints of their events; they
// return the keys of those that were changed: open, and of that event. Empty if the table has no
// column for any of it.

// $3 the time.
std::string processed_sql(const Sql& sql);
// Arrays again: $3 the count to begin with, or NULL; $4 what is added to it; $5 error; $6 due.
std::string failed_sql(const Sql& sql);
// $3 to $5 likewise; $6 the reason.
std::string dead_sql(const Sql& sql);

// A row that others have locked: waited for, left out; or nothing is locked at all.
enum class Lock { wait, skip, none };

// What the rows with the keys $1 say: key, state, retry count, fingerprint, id, type.
std::string look_sql(const Sql& sql, Lock lock);

}  // namespace outbox::postgres
