// Times as people and applications write them into a column.
#pragma once

#include <cmath>
#include <optional>
#include <string>

#include "storage/sqlite/connection.h"
#include "storage/sqlite/times.h"

namespace outbox::sqlite {

// Reads every form that SQLite's own date functions take, Unix seconds and Julian days included.
class TimeReader {
 public:
  explicit TimeReader(Connection& connection)
      : julian_day_(connection.database(), "SELECT julianday(?1, 'auto')") {}

  std::optional<WallTime> read(const std::string& text) {
    if (const auto time = parse_time(text)) return time;
    auto rows = julian_day_.rows(text);
    if (!rows.next() || rows.null(0)) return std::nullopt;
    const double days = rows.column(0).getDouble() - kUnixEpoch;
    return WallTime(std::chrono::milliseconds(std::llround(days * kMillisecondsPerDay)));
  }

 private:
  static constexpr double kUnixEpoch = 2440587.5;
  static constexpr double kMillisecondsPerDay = 86'400'000.0;
  Query julian_day_;
};

}  // namespace outbox::sqlite
