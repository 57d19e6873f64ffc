// Ids of events, which tables keep as texts, numbers or the 16 bytes of a GUID.
#pragma once

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

}  // namespace outbox::sqlite
