// The two clocks of a store: boot time for leases, the wall clock for due times.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "relay/clock.h"

namespace outbox::sqlite {

using WallTime = std::chrono::sys_time<std::chrono::milliseconds>;

// `boot` decides leases; all relays of one machine share its axis, and another `boot_id` means
// that the machine was started anew. `wall` decides only when a row is due.
struct Clocks {
  const Clock* boot = nullptr;
  std::function<WallTime()> wall;
  std::string boot_id;

  // The boot id as a number, to be kept beside times on the boot axis.
  std::int64_t boot_number() const;
};

WallTime system_wall_time();

// The machine's clocks. `boot` outlives the result.
Clocks system_clocks(const Clock& boot);

// CLOCK_BOOTTIME itself.
class BootClock final : public Clock {
 public:
  Time now() const override;
};

// 2026-11-30T18:42:00.123Z: always as long, so that the order of texts is the order of times.
std::string to_text(WallTime time);

// The forms of SQLite's date functions that stand for one moment: a date, with a time or without,
// with Z, an offset or neither (UTC). Nothing if it is none of these.
std::optional<WallTime> parse_time(std::string_view text);

// Whether a text that parse_time() understands is RFC 3339 in UTC as it stands ("...T...Z").
bool has_rfc3339_form(std::string_view text);

}  // namespace outbox::sqlite
