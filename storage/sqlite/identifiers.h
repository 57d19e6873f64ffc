// Ids of events, which tables keep as texts, numbers or the 16 bytes of a GUID.
#pragma once

#include <sqlite3.h>

#include <optional>
#include <string>
#include <string_view>

#include "storage/sqlite/query.h"

namespace outbox::sqlite {

// A GUID of 16 bytes in .NET's order (the first three fields little-endian), as .NET writes it:
// lower-case, with hyphens. Nothing for another number of bytes.
std::optional<std::string> guid_text(std::string_view bytes);

// The column's value as an id, however the table keeps it. Bytes that are no GUID come as they are.
std::string rendered_id(const Query::Rows& rows, int index);

// Makes kFingerprintFunction known to SQL on this connection: of an id, however the table keeps it,
// the fingerprint that a row's handle has.
void add_fingerprint_function(sqlite3* connection);
inline constexpr const char* kFingerprintFunction = "outbox_relay_fingerprint";

}  // namespace outbox::sqlite
