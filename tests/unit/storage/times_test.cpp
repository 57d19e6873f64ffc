#include "storage/sqlite/times.h"

#include <doctest/doctest.h>

namespace outbox::sqlite {
namespace {

using namespace std::chrono_literals;

WallTime at(int year, unsigned month, unsigned day, std::chrono::milliseconds time = 0ms) {
  return std::chrono::sys_days(std::chrono::year(year) / std::chrono::month(month) /
                               std::chrono::day(day)) +
         time;
}

TEST_CASE("a time becomes a text of fixed width, whose order is the order of time") {
  CHECK(to_text(at(2026, 11, 30, 18h + 42min + 123ms)) == "2026-11-30T18:42:00.123Z");
  CHECK(to_text(at(1970, 1, 1)) == "1970-01-01T00:00:00.000Z");
  CHECK(to_text(at(1969, 12, 31, 24h - 1ms)) == "1969-12-31T23:59:59.999Z");
  CHECK(to_text(at(2026, 9, 1)) < to_text(at(2026, 10, 1)));
}

TEST_CASE("a time survives being written and read") {
  for (const WallTime time : {at(2026, 2, 28, 23h), at(2024, 2, 29, 7ms), at(1999, 12, 31)}) {
    CHECK(parse_time(to_text(time)) == time);
  }
}

TEST_CASE("SQLite's own forms are read as UTC") {
  const WallTime noon = at(2026, 11, 30, 12h);
  CHECK(parse_time("2026-11-30 12:00") == noon);
  CHECK(parse_time("2026-11-30 12:00:00") == noon);
  CHECK(parse_time("2026-11-30T12:00:00.000") == noon);
  CHECK(parse_time("2026-11-30T12:00:00Z") == noon);
  CHECK(parse_time("2026-11-30 12:00:00.5") == noon + 500ms);
  CHECK(parse_time("2026-11-30 12:00:00.123456789") == noon + 123ms);
  CHECK(parse_time("2026-11-30") == at(2026, 11, 30));
}

TEST_CASE("an offset is taken off") {
  CHECK(parse_time("2026-11-30T12:00:00+02:00") == at(2026, 11, 30, 10h));
  CHECK(parse_time("2026-11-30T12:00:00-05:30") == at(2026, 11, 30, 17h + 30min));
  CHECK(parse_time("2026-11-30 00:30 +01:00") == at(2026, 11, 29, 23h + 30min));
}

TEST_CASE("what is no time is refused as a whole") {
  for (const char* text : {"",
                           "now",
                           "2026",
                           "2026-13-01",
                           "2026-00-10",
                           "2026-11-32",
                           "2026-11-30X12:00",
                           "2026-11-30 12",
                           "2026-11-30 25:00",
                           "2026-11-30 12:60",
                           "2026-11-30 12:00:",
                           "2026-11-30 12:00:00.",
                           "2026-11-30 12:00:00 noon",
                           "2026-11-30T12:00:00Zoo",
                           "2026-11-30T12:00:00+2:00",
                           "2026-11-30T12:00:00+02:00 ",
                           " 2026-11-30",
                           "26-11-30",
                           "2026-1-1",
                           "-026-11-30",
                           "2026-11-30T12:00:00+15:00"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_time(text).has_value());
  }
}

TEST_CASE("only full times in UTC pass for RFC 3339 as they stand") {
  CHECK(has_rfc3339_form("2026-11-30T12:00:00Z"));
  CHECK(has_rfc3339_form("2026-11-30T12:00:00.123456Z"));
  for (const char* text : {"2026-11-30 12:00:00Z", "2026-11-30T12:00Z", "2026-11-30T12:00:00",
                           "2026-11-30T12:00:00+00:00", "2026-11-30T12:00:00 Z", "Z", ""}) {
    CAPTURE(text);
    CHECK_FALSE(has_rfc3339_form(text));
  }
}

TEST_CASE("a boot is known by its id") {
  Clocks one;
  one.boot_id = "5fbd9b3c";
  Clocks other = one;
  CHECK(one.boot_number() == other.boot_number());
  other.boot_id = "5fbd9b3d";
  CHECK(one.boot_number() != other.boot_number());
}

TEST_CASE("boot time never goes back") {
  const BootClock clock;
  const Time first = clock.now();
  CHECK(clock.now() >= first);
  CHECK(first.time_since_epoch() > Duration{0});
}

}  // namespace
}  // namespace outbox::sqlite
