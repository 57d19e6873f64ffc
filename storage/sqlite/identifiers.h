// Ids of events as SQLite keeps them.
#pragma once

#include <sqlite3.h>

#include <string>

#include "storage/mapping/identifiers.h"
#include "storage/sqlite/query.h"

namespace outbox::sqlite {

// The column's value as an id, however the table keeps it. What is neither a GUID nor a readable
// text comes in hexadecimal.
std::string rendered_id(const Query::Rows& rows, int index, GuidOrder order);

// Makes kFingerprintFunction known to SQL on this connection: of an id, byte by byte as the table
// keeps it, the fingerprint that a row's handle has.
void add_fingerprint_function(sqlite3* connection);
inline constexpr const char* kFingerprintFunction = "outbox_relay_fingerprint";

}  // namespace outbox::sqlite
