#include <doctest/doctest.h>

#include "publishers/http/judgement.h"

namespace outbox {

namespace {

using std::chrono::hours;
using std::chrono::seconds;

// Sun, 06 Nov 1994 08:49:37 GMT
constexpr WallTime kThen{seconds{784111777}};

}  // namespace

TEST_CASE("Retry-After is seconds or a date in one of three forms") {
  CHECK(retry_after("0", "", kThen) == seconds{0});
  CHECK(retry_after("120", "", kThen) == seconds{120});
  CHECK(retry_after("0000000120", "", kThen) == seconds{120});
  CHECK(retry_after("Sun, 06 Nov 1994 08:50:07 GMT", "", kThen) == seconds{30});
  CHECK(retry_after("Sunday, 06-Nov-94 08:50:07 GMT", "", kThen) == seconds{30});
  CHECK(retry_after("Sun Nov  6 08:50:07 1994", "", kThen) == seconds{30});
}

TEST_CASE("Retry-After is never longer than an hour and never negative") {
  CHECK(retry_after("3600", "", kThen) == hours{1});
  CHECK(retry_after("3601", "", kThen) == hours{1});
  CHECK(retry_after("99999999999999999999999", "", kThen) == hours{1});
  CHECK(retry_after("Fri, 31 Dec 9999 23:59:59 GMT", "", kThen) == hours{1});
  CHECK(retry_after("Sun, 06 Nov 1994 08:49:36 GMT", "", kThen) == seconds{0});
  CHECK(retry_after("Mon, 01 Jan 0001 00:00:00 GMT", "", kThen) == seconds{0});
}

TEST_CASE("a date counts from the answer's own date, so that clocks need not agree") {
  const char* date = "Mon, 01 Jan 2024 00:00:00 GMT";
  CHECK(retry_after("Mon, 01 Jan 2024 00:00:10 GMT", date, kThen) == seconds{10});
  CHECK(retry_after("Mon, 01 Jan 2024 00:00:10 GMT", "nonsense", kThen) == hours{1});
}

TEST_CASE("what is no Retry-After is none") {
  for (const char* bad :
       {"", "soon", "-1", "1.5", "12 seconds", "0x10", " 5", "Sun, 06 Nov 1994 08:50:07",
        "Sun, 06 Nov 1994 8:50:07 GMT", "Sun, 31 Feb 1994 08:50:07 GMT",
        "Sun, 06 Foo 1994 08:50:07 GMT", "Sun, 06 Nov 1994 25:50:07 GMT",
        "Sun, 06 Nov 1994 08-50-07 GMT", "Sun Nov  6 08:50:07 94", ", GMT", "Sun, GMT"}) {
    CAPTURE(bad);
    CHECK_FALSE(retry_after(bad, "", kThen).has_value());
  }
}

TEST_CASE("a 503 is throttling only if it says for how long") {
  CHECK(judge({503, "", ""}, kThen).outcome == Outcome::transport);
  CHECK(judge({503, "nonsense", ""}, kThen).outcome == Outcome::transport);
  CHECK(judge({503, "5", ""}, kThen).outcome == Outcome::throttled);
  CHECK(judge({503, "5", ""}, kThen).wait == seconds{5});
  CHECK(judge({429, "", ""}, kThen).outcome == Outcome::throttled);
  CHECK(judge({429, "", ""}, kThen).wait == seconds{0});
  CHECK(judge({429, "5", ""}, kThen).wait == seconds{5});
  CHECK(judge({500, "5", ""}, kThen).outcome == Outcome::transport);
  CHECK(judge({500, "5", ""}, kThen).wait == seconds{0});
}

}  // namespace outbox
