// Durations, sizes and addresses.
#include "relay/app/units.h"

#include <doctest/doctest.h>

#include <array>
#include <limits>

namespace outbox {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

TEST_CASE("a duration is whole numbers with units, largest first") {
  CHECK(parse_duration("30s").value == seconds{30});
  CHECK(parse_duration("500ms").value == milliseconds{500});
  CHECK(parse_duration("1h").value == hours{1});
  CHECK(parse_duration("10m").value == minutes{10});
  CHECK(parse_duration("7d").value == hours{7 * 24});
  CHECK(parse_duration("1h30m").value == minutes{90});
  CHECK(parse_duration("1m30s500ms").value == milliseconds{90'500});
  CHECK(parse_duration("0s").value == Duration::zero());
  CHECK(parse_duration("12us7ns").value == Duration{12'007});
}

TEST_CASE("a text that is no duration is refused") {
  for (const char* text : {"", "s", "30", "-5s", "+5s", "1.5s", "5 s", " 5s", "5s ", "5S", "5sec",
                           "30s1h", "1h1h", "1h30", "5x", "0x5s", "five", "1e3s"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_duration(text).ok());
  }
  CHECK(parse_duration("30").error == "a duration needs a unit; write 30s or 30ms");
}

TEST_CASE("a duration beyond what 64 bits of nanoseconds hold is refused, not wrapped") {
  constexpr auto kMost = std::numeric_limits<Duration::rep>::max();
  CHECK(parse_duration("9223372036854775807ns").value == Duration{kMost});
  CHECK_FALSE(parse_duration("9223372036854775808ns").ok());
  CHECK_FALSE(parse_duration("106752d").ok());
  CHECK(parse_duration("106751d").ok());
  CHECK_FALSE(parse_duration("106751d24h").ok());
  CHECK_FALSE(parse_duration("99999999999999999999999s").ok());
  CHECK_FALSE(parse_duration("18446744073709551615d").ok());
}

TEST_CASE("a formatted duration reads back as itself") {
  for (const auto duration : std::array<Duration, 9>{
           seconds{0}, Duration{1}, milliseconds{1}, seconds{59}, seconds{90}, minutes{60},
           hours{25}, Duration{123'456'789'012'345}, Duration::max()}) {
    const auto text = format_duration(duration);
    CAPTURE(text);
    CHECK(parse_duration(text).value == duration);
  }
  CHECK(format_duration(seconds{90}) == "1m30s");
}

TEST_CASE("a duration for people has two units and no fractions of a second beside minutes") {
  CHECK(about_duration(hours{1} + minutes{11} + seconds{42}) == "1h11m");
  CHECK(about_duration(seconds{31} + milliseconds{250}) == "31s");
  CHECK(about_duration(milliseconds{250}) == "250ms");
  CHECK(about_duration(hours{24} + seconds{5}) == "1d");
  CHECK(about_duration(Duration::zero()) == "0s");
}

TEST_CASE("a size is a whole number with a binary unit") {
  CHECK(parse_size("64MiB").value == 64U << 20U);
  CHECK(parse_size("4KiB").value == 4096);
  CHECK(parse_size("1GiB").value == std::uint64_t{1} << 30U);
  CHECK(parse_size("512B").value == 512);
  CHECK(parse_size("0B").ok());
  for (const char* text : {"", "64", "-1B", "1.5MiB", "64 MiB", "64mib", "64MB", "MiB", "64MiBs"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_size(text).ok());
  }
  CHECK(parse_size("64MB").error == "is not a size; write 64MiB");
}

TEST_CASE("a size too large for a signed 64-bit number is refused, not wrapped") {
  CHECK(parse_size("9223372036854775807B").ok());
  CHECK_FALSE(parse_size("9223372036854775808B").ok());
  CHECK_FALSE(parse_size("8388608TiB").ok());
  CHECK(parse_size("8388607TiB").ok());
  CHECK_FALSE(parse_size("18446744073709551616KiB").ok());
}

TEST_CASE("a formatted size reads back as itself") {
  for (const std::uint64_t bytes : {0ULL, 1ULL, 1024ULL, 1536ULL, 64ULL << 20U, 5ULL << 40U}) {
    CHECK(parse_size(format_size(bytes)).value == bytes);
  }
}

TEST_CASE("an address is a host and a port") {
  CHECK(parse_address("0.0.0.0:9711").value == HostPort{"0.0.0.0", 9711});
  CHECK(parse_address("[::1]:0").value == HostPort{"::1", 0});
  CHECK(format_address(HostPort{"::1", 80}) == "[::1]:80");
  CHECK(parse_address("localhost:65535").value.port == 65'535);
  for (const char* text : {"", "9711", ":9711", "::1:9711", "host:", "host:65536", "host:-1",
                           "host:80x", "host: 80", "http://host:80", "[::1]", "a b:80"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_address(text).ok());
  }
}

}  // namespace
}  // namespace outbox
