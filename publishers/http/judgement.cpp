#include "publishers/http/judgement.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace outbox {

namespace {

using std::chrono::seconds;

constexpr seconds kWaitMax = std::chrono::hours{1};

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// Digits, perhaps with spaces before them (asctime pads the day); -1 if it is no such number.
int number(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  if (!is_digits(text) || text.size() > 4) return -1;
  int value = 0;
  for (const char c : text) value = value * 10 + (c - '0');
  return value;
}

int month_number(std::string_view name) {
  constexpr std::array<std::string_view, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                        "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const auto found = std::ranges::find(kMonths, name);
  return found == kMonths.end() ? 0 : static_cast<int>(found - kMonths.begin()) + 1;
}

struct Fields {
  int year = -1;
  std::string_view month;
  int day = -1;
  std::string_view time;  // hh:mm:ss
};

std::optional<WallTime> to_time(const Fields& fields) {
  const int month = month_number(fields.month);
  if (fields.year < 0 || month == 0 || fields.day < 0 || fields.time.size() != 8) return {};
  const int hour = number(fields.time.substr(0, 2));
  const int minute = number(fields.time.substr(3, 2));
  const int second = number(fields.time.substr(6, 2));
  if (fields.time[2] != ':' || fields.time[5] != ':') return {};
  if (hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 60) return {};
  const std::chrono::year_month_day day{std::chrono::year{fields.year},
                                        std::chrono::month{static_cast<unsigned>(month)},
                                        std::chrono::day{static_cast<unsigned>(fields.day)}};
  if (!day.ok()) return {};
  return std::chrono::sys_days{day} + std::chrono::hours{hour} + std::chrono::minutes{minute} +
         seconds{second};
}

// RFC 850 dates have two digits for the year; one that seems more than 50 years ahead is past.
int full_year(int two_digits, WallTime now) {
  if (two_digits < 0) return -1;
  const std::chrono::year_month_day today{std::chrono::floor<std::chrono::days>(now)};
  const int current = static_cast<int>(today.year());
  const int year = current - current % 100 + two_digits;
  return year > current + 50 ? year - 100 : year;
}

std::optional<WallTime> http_date(std::string_view text, WallTime now) {
  const auto comma = text.find(", ");
  if (comma == std::string_view::npos) {  // Sun Nov  6 08:49:37 1994
    if (text.size() != 24) return {};
    return to_time({number(text.substr(20)), text.substr(4, 3), number(text.substr(8, 2)),
                    text.substr(11, 8)});
  }
  if (!text.ends_with(" GMT")) return {};
  const std::string_view rest = text.substr(comma + 2, text.size() - comma - 6);
  if (rest.size() == 20) {  // 06 Nov 1994 08:49:37
    return to_time(
        {number(rest.substr(7, 4)), rest.substr(3, 3), number(rest.substr(0, 2)), rest.substr(12)});
  }
  if (rest.size() == 18) {  // 06-Nov-94 08:49:37
    return to_time({full_year(number(rest.substr(7, 2)), now), rest.substr(3, 3),
                    number(rest.substr(0, 2)), rest.substr(10)});
  }
  return {};
}

Outcome outcome_of_client_error(int status) {
  constexpr std::array<int, 6> kMisconfigured = {401, 403, 404, 405, 407, 410};
  if (status == 408 || status == 425) return Outcome::transport;
  if (status == 409) return Outcome::conflict;
  if (status == 429) return Outcome::throttled;
  return std::ranges::find(kMisconfigured, status) != kMisconfigured.end() ? Outcome::misconfigured
                                                                           : Outcome::refused;
}

}  // namespace

Judgement judge(const HttpAnswer& answer, WallTime now) {
  Judgement judgement;
  const int status = answer.status;
  if (status >= 200 && status < 300) judgement.outcome = Outcome::confirmed;
  if (status >= 300 && status < 400) judgement.outcome = Outcome::misconfigured;
  if (status >= 400 && status < 500) judgement.outcome = outcome_of_client_error(status);
  const std::optional<Duration> wait = retry_after(answer.retry_after, answer.date, now);
  if (status == 503 && wait) judgement.outcome = Outcome::throttled;
  if (judgement.outcome == Outcome::throttled) judgement.wait = wait.value_or(Duration::zero());
  return judgement;
}

std::optional<Duration> retry_after(std::string_view value, std::string_view date, WallTime now) {
  if (is_digits(value)) {
    const std::string_view digits =
        value.substr(std::min(value.find_first_not_of('0'), value.size()));
    if (digits.size() > 4) return kWaitMax;
    return std::min(seconds{digits.empty() ? 0 : number(digits)}, kWaitMax);
  }
  const std::optional<WallTime> until = http_date(value, now);
  if (!until) return {};
  const WallTime from = http_date(date, now).value_or(now);
  return std::clamp(std::chrono::duration_cast<seconds>(*until - from), seconds{0}, kWaitMax);
}

}  // namespace outbox
