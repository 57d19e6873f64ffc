#include "relay/app/units.h"

#include <fmt/format.h>
#include <time.h>

#include <array>
#include <charconv>
#include <limits>
#include <optional>

namespace outbox {
namespace {

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};

constexpr std::uint64_t kSecond = 1'000'000'000;

// Largest first: formatting takes them in this order.
constexpr std::array<Unit, 7> kTimeUnits = {{{"d", 86'400 * kSecond},
                                             {"h", 3'600 * kSecond},
                                             {"m", 60 * kSecond},
                                             {"s", kSecond},
                                             {"ms", 1'000'000},
                                             {"us", 1'000},
                                             {"ns", 1}}};

constexpr std::array<Unit, 5> kSizeUnits = {{{"TiB", std::uint64_t{1} << 40},
                                             {"GiB", std::uint64_t{1} << 30},
                                             {"MiB", std::uint64_t{1} << 20},
                                             {"KiB", std::uint64_t{1} << 10},
                                             {"B", 1}}};

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

std::size_t digits_at(std::string_view text, std::size_t from) {
  std::size_t end = from;
  while (end < text.size() && is_digit(text[end])) ++end;
  return end - from;
}

template <std::size_t Size>
const Unit* find_unit(const std::array<Unit, Size>& units, std::string_view name) {
  for (const auto& unit : units) {
    if (unit.name == name) return &unit;
  }
  return nullptr;
}

// digits x factor + sum, unless that exceeds `limit`.
std::optional<std::uint64_t> add_scaled(std::uint64_t sum, std::string_view digits,
                                        std::uint64_t factor, std::uint64_t limit) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc{} || number > limit / factor) return std::nullopt;
  const std::uint64_t scaled = number * factor;
  if (scaled > limit - sum) return std::nullopt;
  return sum + scaled;
}

std::string duration_hint(std::string_view text) {
  if (!text.empty() && digits_at(text, 0) == text.size()) {
    return fmt::format("a duration needs a unit; write {0}s or {0}ms", text);
  }
  if (text.starts_with('-')) return "a duration can't be negative; write 0s or more";
  return "is not a duration; write whole numbers with units, such as 500ms, 30s or 1h30m";
}

std::string size_hint(std::string_view text) {
  const auto digits = digits_at(text, 0);
  if (digits > 0 && digits == text.size()) {
    return fmt::format("a size needs a unit; write {0}KiB, {0}MiB or {0}B", text);
  }
  if (digits > 0 && text.size() == digits + 2 && text.ends_with('B')) {
    return fmt::format("is not a size; write {}iB", text.substr(0, digits + 1));
  }
  return "is not a size; write a whole number with a unit, such as 64MiB or 4KiB";
}

}  // namespace

Parsed<Duration> parse_duration(std::string_view text) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<Duration::rep>::max());
  std::uint64_t total = 0;
  std::uint64_t last_factor = std::numeric_limits<std::uint64_t>::max();
  if (text.empty()) return {.error = duration_hint(text)};
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t digits = digits_at(text, at);
    std::size_t end = at + digits;
    while (end < text.size() && !is_digit(text[end])) ++end;
    const auto name = text.substr(at + digits, end - at - digits);
    const Unit* unit = find_unit(kTimeUnits, name);
    if (digits == 0 || unit == nullptr || unit->factor >= last_factor) {
      return {.error = duration_hint(text)};
    }
    const auto sum = add_scaled(total, text.substr(at, digits), unit->factor, kMost);
    if (!sum) return {.error = "is too long a time; the longest is about 292 years"};
    total = *sum;
    last_factor = unit->factor;
    at = end;
  }
  return {.value = Duration{static_cast<Duration::rep>(total)}};
}

std::string format_duration(Duration duration) {
  if (duration <= Duration::zero()) return "0s";
  auto left = static_cast<std::uint64_t>(duration.count());
  std::string text;
  for (const auto& unit : kTimeUnits) {
    if (left < unit.factor) continue;
    text += fmt::format("{}{}", left / unit.factor, unit.name);
    left %= unit.factor;
  }
  return text;
}

std::string about_duration(Duration duration) {
  if (duration <= Duration::zero()) return "0s";
  auto left = static_cast<std::uint64_t>(duration.count());
  std::string text;
  int units = 0;
  for (const auto& unit : kTimeUnits) {
    if (units == 0 && left < unit.factor) continue;
    if (units == 2 || (units == 1 && unit.factor < kSecond)) break;
    if (left >= unit.factor) text += fmt::format("{}{}", left / unit.factor, unit.name);
    left %= unit.factor;
    ++units;
  }
  return text;
}

Parsed<std::uint64_t> parse_size(std::string_view text) {
  const std::size_t digits = digits_at(text, 0);
  const Unit* unit = find_unit(kSizeUnits, text.substr(digits));
  if (digits == 0 || unit == nullptr) return {.error = size_hint(text)};
  // Sizes end up in signed arithmetic of files and databases.
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const auto bytes = add_scaled(0, text.substr(0, digits), unit->factor, kMost);
  if (!bytes) return {.error = "is too large a size"};
  return {.value = *bytes};
}

std::string format_size(std::uint64_t bytes) {
  if (bytes == 0) return "0B";
  for (const auto& unit : kSizeUnits) {
    if (bytes % unit.factor == 0) return fmt::format("{}{}", bytes / unit.factor, unit.name);
  }
  return fmt::format("{}B", bytes);
}

Parsed<HostPort> parse_address(std::string_view text) {
  constexpr std::string_view kHint = "is not an address; write HOST:PORT, such as 0.0.0.0:9711";
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return {.error = std::string(kHint)};
  auto host = text.substr(0, colon);
  const auto port_text = text.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return {.error = "an IPv6 address needs brackets; write [::1]:9711"};
  }
  if (host.empty()) return {.error = "needs a host; write 0.0.0.0:PORT for all interfaces"};
  if (host.find_first_of(" \t[]/") != std::string_view::npos) return {.error = std::string(kHint)};
  unsigned port = 0;
  const auto [end, error] =
      std::from_chars(port_text.data(), port_text.data() + port_text.size(), port);
  if (error != std::errc{} || end != port_text.data() + port_text.size() || port > 65'535) {
    return {.error = "needs a port between 0 and 65535"};
  }
  return {.value = {std::string(host), static_cast<std::uint16_t>(port)}};
}

std::string format_address(const HostPort& address) {
  const bool brackets = address.host.find(':') != std::string::npos;
  return brackets ? fmt::format("[{}]:{}", address.host, address.port)
                  : fmt::format("{}:{}", address.host, address.port);
}

std::optional<std::chrono::sys_time<std::chrono::milliseconds>> parse_instant(
    const std::string& text) {
  for (const char* form : {"%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d"}) {
    std::tm time{};
    const char* const end = ::strptime(text.c_str(), form, &time);
    if (end == nullptr || *end != 0) continue;
    return std::chrono::sys_time<std::chrono::milliseconds>(std::chrono::seconds(::timegm(&time)));
  }
  return std::nullopt;
}

}  // namespace outbox
