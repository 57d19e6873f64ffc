// Moments of the wall clock, and how they are written.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace outbox {

using WallTime = std::chrono::sys_time<std::chrono::milliseconds>;

WallTime system_wall_time();

// 2026-11-30T18:42:00.123Z: always as long, so that the order of texts is the order of times.
std::string to_text(WallTime time);

// The forms of SQLite's date functions that stand for one moment: a date, with a time or without,
// with Z, an offset or neither (UTC). Nothing if it is none of these.
std::optional<WallTime> parse_time(std::string_view text);

// Whether a text that parse_time() understands is RFC 3339 in UTC as it stands ("...T...Z").
bool has_rfc3339_form(std::string_view text);

}  // namespace outbox
