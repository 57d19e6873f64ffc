#include "storage/sqlite/doctor.h"

#include <doctest/doctest.h>

#include "storage/mapping/findings.h"

using namespace outbox;
using namespace outbox::sqlite;
using std::chrono::hours;
using std::chrono::minutes;

namespace {

const std::vector<std::string> kWritten = {"status", "retry_count"};

WallTime noon() {
  return WallTime{std::chrono::sys_days{std::chrono::year{2026} / 11 / 30}} + hours{12};
}

}  // namespace

TEST_CASE("network, user-space and layered file systems are found out, local ones are not") {
  for (const std::uint32_t magic : {0x6969u, 0xff534d42u, 0xfe534d42u, 0x65735546u, 0x12345678u}) {
    const auto finding = judge_file_system(file_system_of_magic(magic), "/data/app.db");
    REQUIRE(finding.has_value());
    CHECK(finding->severity == Severity::error);
    CHECK(finding->unreachable);
    CHECK(finding->what.find(file_system_of_magic(magic).name) != std::string::npos);
  }
  const auto layered = judge_file_system(file_system_of_magic(0x794c7630), "/data/app.db");
  REQUIRE(layered.has_value());
  CHECK(layered->severity == Severity::warning);
  CHECK_FALSE(layered->unreachable);
  const auto in_memory = judge_file_system(file_system_of_magic(0x01021994), "/data/app.db");
  REQUIRE(in_memory.has_value());
  CHECK(in_memory->severity == Severity::information);
  CHECK_FALSE(judge_file_system(file_system_of_magic(0xef53), "/data/app.db").has_value());
}

TEST_CASE("the less space is left, the worse it is") {
  constexpr std::uint64_t kMebibyte = 1u << 20;
  CHECK_FALSE(judge_free_space(512 * kMebibyte, "x").has_value());
  CHECK(judge_free_space(511 * kMebibyte, "x")->severity == Severity::warning);
  CHECK(judge_free_space(63 * kMebibyte, "x")->severity == Severity::error);
  CHECK(judge_free_space(0, "x")->what.find("0.0 MiB") != std::string::npos);
}

TEST_CASE("an event of the future is found out, and a time zone is told from a wrong clock") {
  CHECK_FALSE(judge_clock(noon(), noon()).has_value());
  CHECK_FALSE(judge_clock(noon() - hours{1000}, noon()).has_value());
  CHECK_FALSE(judge_clock(noon() + minutes{5}, noon()).has_value());
  CHECK(judge_clock(noon() + minutes{7}, noon())->fix.find("NTP") != std::string::npos);
  CHECK(judge_clock(noon() + hours{2}, noon())->fix.find("UTC") != std::string::npos);
  const auto india =
      judge_clock(noon() + hours{5} + minutes{30} - std::chrono::seconds{20}, noon());
  CHECK(india->fix.find("UTC") != std::string::npos);
  CHECK(judge_clock(noon() + hours{24 * 365}, noon())->fix.find("NTP") != std::string::npos);
}

TEST_CASE("a trigger is told by its event, wherever its words stand") {
  const auto fires = [](const char* sql) { return fires_on_update(sql, kWritten); };
  CHECK(fires("CREATE TRIGGER t AFTER UPDATE ON o BEGIN SELECT 1; END"));
  CHECK(fires("create temp trigger if not exists main.t update on o begin select 1; end"));
  CHECK(fires("CREATE TRIGGER \"on insert\" BEFORE UPDATE OF payload, Status ON o BEGIN END"));
  CHECK(fires("CREATE TRIGGER t /* after insert */ UPDATE OF \"retry_count\" ON o BEGIN END"));
  CHECK_FALSE(fires("CREATE TRIGGER t UPDATE OF payload ON o BEGIN UPDATE x SET status = 1; END"));
  CHECK_FALSE(fires("CREATE TRIGGER \"update\" AFTER INSERT ON o BEGIN SELECT 1; END"));
  CHECK_FALSE(fires("CREATE TRIGGER t DELETE ON o BEGIN UPDATE o SET status = 1; END"));
  CHECK_FALSE(fires("CREATE TRIGGER"));
  CHECK_FALSE(fires(""));
}
