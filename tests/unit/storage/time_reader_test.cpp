// Times in somebody else's columns.
#include "storage/sqlite/time_reader.h"

#include <doctest/doctest.h>

#include "tests/temporary_folder.h"

namespace outbox::sqlite {
namespace {

// Any database will do: only SQLite's own date functions are asked.
class Database {
 public:
  std::string read(const std::string& text, TimeFormat format) {
    const auto time = TimeReader(connection_, format).read(text);
    return time ? to_text(*time) : "none";
  }

 private:
  static std::string created(const std::string& path) {
    SQLite::Database(path, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE).exec("CREATE TABLE t(x)");
    return path;
  }

  const testing::TemporaryFolder folder_;
  Connection connection_{created(folder_.file("t.db")), std::chrono::seconds{1}};
};

TEST_CASE("numbers are times in the unit that the table keeps") {
  Database database;
  const std::string time = "2026-11-30T18:42:00.000Z";
  CHECK(database.read("1796064120", TimeFormat::seconds) == time);
  CHECK(database.read("1796064120.0", TimeFormat::seconds) == time);
  CHECK(database.read("1796064120000", TimeFormat::milliseconds) == time);
  CHECK(database.read("639316609200000000", TimeFormat::ticks) == time);
  CHECK(database.read("1796064120", TimeFormat::iso) == time);  // as SQLite takes it
  CHECK(database.read("1796064120000", TimeFormat::iso) == "none");
  for (const auto format : {TimeFormat::seconds, TimeFormat::milliseconds, TimeFormat::ticks}) {
    CHECK(database.read("2026-11-30 18:42:00", format) == time);
    CHECK(database.read("1e300", format) == "none");
    CHECK(database.read("nan", format) == "none");
    CHECK(database.read("soon", format) == "none");
    CHECK(database.read("", format) == "none");
  }
}

TEST_CASE("a time is written as the table keeps it, and read again") {
  Database database;
  const auto time = parse_time("2026-11-30T18:42:00.123Z");
  REQUIRE(time);
  CHECK(to_column(*time, TimeFormat::iso) == Value("2026-11-30T18:42:00.123Z"));
  CHECK(to_column(*time, TimeFormat::sql) == Value("2026-11-30 18:42:00.123"));
  CHECK(to_column(*time, TimeFormat::seconds) == Value(1796064120));
  CHECK(to_column(*time, TimeFormat::milliseconds) == Value(1796064120123));
  CHECK(to_column(*time, TimeFormat::ticks) == Value(639316609201230000));
}

}  // namespace
}  // namespace outbox::sqlite
