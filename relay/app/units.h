// Durations, sizes and addresses as people write them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "relay/clock.h"

namespace outbox {

// A value, or a reason why the text is none, worded to follow "relay.leaseTerm = ...: ".
template <class Value>
struct Parsed {
  Value value{};
  std::string error{};
  bool ok() const { return error.empty(); }
};

// "30s", "500ms", "1h30m": whole numbers, each with a unit of ns us ms s m h d.
Parsed<Duration> parse_duration(std::string_view text);
// The shortest text that parse_duration() reads back: "1m30s".
std::string format_duration(Duration duration);
// For people, at most two units: "1h11m" of 1h11m42s300ms.
std::string about_duration(Duration duration);

// "2026-11-30T18:00:00Z", "2026-11-30 18:00:00" and "2026-11-30", in UTC.
std::optional<std::chrono::sys_time<std::chrono::milliseconds>> parse_instant(
    const std::string& text);

// "64MiB", "4KiB", "512B": a whole number with a unit of B KiB MiB GiB TiB.
Parsed<std::uint64_t> parse_size(std::string_view text);
std::string format_size(std::uint64_t bytes);

struct HostPort {
  std::string host;
  std::uint16_t port = 0;
  bool operator==(const HostPort&) const = default;
};

// "127.0.0.1:9711", "[::1]:9711", "0.0.0.0:0" (port 0: any free one).
Parsed<HostPort> parse_address(std::string_view text);
std::string format_address(const HostPort& address);

}  // namespace outbox
