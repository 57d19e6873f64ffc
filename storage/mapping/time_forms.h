// Times as a table's columns hold them.
#pragma once

#include <optional>
#include <string>

#include "storage/mapping/mapping.h"
#include "storage/mapping/times.h"
#include "storage/mapping/value.h"

namespace outbox {

// A column's value as text, whatever its type: a text that stands for a moment, or a number where
// the format says what numbers are.
std::optional<WallTime> read_time(const std::string& text, TimeFormat format);

// Whether the text is a number, and numbers are times in that format.
bool is_number_of(const std::string& text, TimeFormat format);

// Milliseconds since 1970, as far as a message's time can be that.
std::optional<WallTime> from_milliseconds(double milliseconds);

// A time as it is written into a column.
Value to_column(WallTime time, TimeFormat format);

}  // namespace outbox
