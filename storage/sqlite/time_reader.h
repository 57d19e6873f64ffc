// Times as people and applications write them into a column.
#pragma once

#include <optional>
#include <string>

#include "storage/mapping/time_forms.h"
#include "storage/sqlite/connection.h"
#include "storage/sqlite/times.h"

namespace outbox::sqlite {

// Reads every form that SQLite's own date functions take, Unix seconds and Julian days included;
// numbers in another unit where the format says so.
class TimeReader {
 public:
  TimeReader(Connection& connection, TimeFormat format)
      : format_(format), julian_day_(connection.database(), "SELECT julianday(?1, 'auto')") {}

  // `text` is the column's value as text, whatever its type.
  std::optional<WallTime> read(const std::string& text);

 private:
  const TimeFormat format_;
  Query julian_day_;
};

}  // namespace outbox::sqlite
