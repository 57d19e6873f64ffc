// Ids of events, which tables keep as texts, numbers or the 16 bytes of a GUID.
#pragma once

#include <sqlite3.h>

#include <optional>
#include <string>
#include <string_view>

#include "storage/sqlite/mapping.h"
#include "storage/sqlite/query.h"

namespace outbox::sqlite {

// A GUID of 16 bytes as a text: lower-case, with hyphens. Nothing for another number of bytes.
std::optional<std::string> guid_text(std::string_view bytes, GuidOrder order);

// The other way round; nothing if the text is no such thing.
std::optional<std::string> guid_bytes(std::string_view text, GuidOrder order);

// x'00ff', and the other way round; nothing if the text is no such thing.
std::string hex_text(std::string_view bytes);
std::optional<std::string> hex_bytes(std::string_view text);

// The column's value as an id, however the table keeps it. What is neither a GUID nor a readable
// text comes in hexadecimal.
std::string rendered_id(const Query::Rows& rows, int index, GuidOrder order);

// Makes kFingerprintFunction known to SQL on this connection: of an id, byte by byte as the table
// keeps it, the fingerprint that a row's handle has.
void add_fingerprint_function(sqlite3* connection);
inline constexpr const char* kFingerprintFunction = "outbox_relay_fingerprint";

}  // namespace outbox::sqlite
