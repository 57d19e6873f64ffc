#include "storage/mapping/time_forms.h"

#include <charconv>
#include <cmath>

namespace outbox {
namespace {

constexpr std::int64_t kTicksPerMillisecond = 10'000;
constexpr std::int64_t kTicksAtUnixEpoch = 621'355'968'000'000'000;
// The years 0 to 9999, which is what a message's time can be.
constexpr std::int64_t kMillisecondsMin = -62'167'219'200'000;
constexpr std::int64_t kMillisecondsMax = 253'402'300'799'999;

std::optional<double> number_of(const std::string& text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || rest != end || !std::isfinite(number)) return std::nullopt;
  return number;
}

// How many milliseconds one is; nothing where numbers are no times.
std::optional<WallTime> from_number(double number, TimeFormat format) {
  switch (format) {
    case TimeFormat::iso:
    case TimeFormat::sql:
      break;
    case TimeFormat::seconds:
      return from_milliseconds(number * 1000);
    case TimeFormat::milliseconds:
      return from_milliseconds(number);
    case TimeFormat::ticks:
      return from_milliseconds((number - static_cast<double>(kTicksAtUnixEpoch)) /
                               static_cast<double>(kTicksPerMillisecond));
  }
  return std::nullopt;
}

bool reads_numbers(TimeFormat format) {
  return format != TimeFormat::iso && format != TimeFormat::sql;
}

}  // namespace

std::optional<WallTime> from_milliseconds(double milliseconds) {
  if (milliseconds < static_cast<double>(kMillisecondsMin) ||
      milliseconds > static_cast<double>(kMillisecondsMax)) {
    return std::nullopt;
  }
  return WallTime(std::chrono::milliseconds(std::llround(milliseconds)));
}

std::optional<WallTime> read_time(const std::string& text, TimeFormat format) {
  if (const auto time = parse_time(text)) return time;
  if (!reads_numbers(format)) return std::nullopt;
  const auto number = number_of(text);
  return number ? from_number(*number, format) : std::nullopt;
}

bool is_number_of(const std::string& text, TimeFormat format) {
  return reads_numbers(format) && number_of(text).has_value();
}

Value to_column(WallTime time, TimeFormat format) {
  const std::int64_t milliseconds = time.time_since_epoch().count();
  std::string text;
  switch (format) {
    case TimeFormat::iso:
      return to_text(time);
    case TimeFormat::sql:
      text = to_text(time);
      text[10] = ' ';
      text.pop_back();
      return text;
    case TimeFormat::seconds:
      return std::chrono::floor<std::chrono::seconds>(time).time_since_epoch().count();
    case TimeFormat::milliseconds:
      return milliseconds;
    case TimeFormat::ticks:
      return milliseconds * kTicksPerMillisecond + kTicksAtUnixEpoch;
  }
  return milliseconds;
}

}  // namespace outbox
