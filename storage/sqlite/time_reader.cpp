#include "storage/sqlite/time_reader.h"

namespace outbox::sqlite {
namespace {

constexpr double kUnixEpoch = 2440587.5;  // as a Julian day
constexpr double kMillisecondsPerDay = 86'400'000.0;

}  // namespace

std::optional<WallTime> TimeReader::read(const std::string& text) {
  if (const auto time = read_time(text, format_)) return time;
  if (is_number_of(text, format_)) return std::nullopt;
  // SQLite also reads "now", which is another time at each attempt.
  if (text.find_first_of("0123456789") == std::string::npos) return std::nullopt;
  auto rows = julian_day_.rows(text);
  if (!rows.next() || rows.null(0)) return std::nullopt;
  return from_milliseconds((rows.column(0).getDouble() - kUnixEpoch) * kMillisecondsPerDay);
}

}  // namespace outbox::sqlite
