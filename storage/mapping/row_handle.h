// What the relay calls a row: its place and key in the table, and a fingerprint of its event's id.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "relay/message.h"
#include "storage/mapping/value.h"

namespace outbox {

// A key alone would name another row in a database file that was put in place of the one that the
// row was leased from: a confirmation that comes late would mark that one as processed.
struct RowHandle {
  Value key;
  std::int64_t place = 0;  // in the order of the table when the row was leased: a hint
  std::uint32_t fingerprint = 0;
};

// Never kAnyFingerprint.
std::uint32_t fingerprint_of_id(std::string_view event_id);

// Stands for any event: in notes that an earlier version wrote.
constexpr std::uint32_t kAnyFingerprint = 0;

// "42-1a2b3c4d" where the place is the key, else with the key behind: "42-1a2b3c4d-t<text>",
// "...-i<number>", "...-b<bytes>".
RowId to_row_id(const Value& key, std::int64_t place, std::uint32_t fingerprint);
// Nothing if the text is no such handle.
std::optional<RowHandle> parse_row_id(const RowId& row);

}  // namespace outbox
