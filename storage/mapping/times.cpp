#include "storage/mapping/times.h"

#include <fmt/format.h>

namespace outbox {
namespace {

// Reads a text from left to right.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}

  bool done() const { return rest_.empty(); }

  std::optional<int> digits(std::size_t count) {
    if (rest_.size() < count) return std::nullopt;
    int value = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (rest_[i] < '0' || rest_[i] > '9') return std::nullopt;
      value = value * 10 + (rest_[i] - '0');
    }
    rest_.remove_prefix(count);
    return value;
  }

  bool skip(char letter) {
    if (rest_.empty() || rest_.front() != letter) return false;
    rest_.remove_prefix(1);
    return true;
  }

  // Any number of digits, as thousandths.
  std::optional<int> thousandths() {
    int value = 0;
    int weight = 100;
    std::size_t count = 0;
    while (!rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9') {
      value += (rest_.front() - '0') * weight;
      weight /= 10;
      rest_.remove_prefix(1);
      ++count;
    }
    return count > 0 ? std::optional(value) : std::nullopt;
  }

 private:
  std::string_view rest_;
};

std::optional<std::chrono::sys_days> scan_date(Scanner& scanner) {
  const auto year = scanner.digits(4);
  if (!year || !scanner.skip('-')) return std::nullopt;
  const auto month = scanner.digits(2);
  if (!month || *month < 1 || *month > 12 || !scanner.skip('-')) return std::nullopt;
  const auto day = scanner.digits(2);
  if (!day || *day < 1 || *day > 31) return std::nullopt;
  // As in SQLite, February 31 is a day in March.
  return std::chrono::sys_days(std::chrono::year(*year) /
                               std::chrono::month(static_cast<unsigned>(*month)) / 1) +
         std::chrono::days(*day - 1);
}

std::optional<std::chrono::milliseconds> scan_time_of_day(Scanner& scanner) {
  const auto hour = scanner.digits(2);
  if (!hour || *hour > 24 || !scanner.skip(':')) return std::nullopt;
  const auto minute = scanner.digits(2);
  if (!minute || *minute > 59) return std::nullopt;
  std::chrono::milliseconds result = std::chrono::hours(*hour) + std::chrono::minutes(*minute);
  if (!scanner.skip(':')) return result;
  const auto second = scanner.digits(2);
  if (!second || *second > 60) return std::nullopt;
  result += std::chrono::seconds(*second);
  if (!scanner.skip('.')) return result;
  const auto fraction = scanner.thousandths();
  if (!fraction) return std::nullopt;
  return result + std::chrono::milliseconds(*fraction);
}

// How far the text's local time is ahead of UTC.
std::optional<std::chrono::minutes> scan_offset(Scanner& scanner) {
  while (scanner.skip(' ')) {
  }
  if (scanner.skip('Z') || scanner.skip('z') || scanner.done()) return std::chrono::minutes(0);
  const bool behind = scanner.skip('-');
  if (!behind && !scanner.skip('+')) return std::nullopt;
  const auto hours = scanner.digits(2);
  if (!hours || *hours > 14 || !scanner.skip(':')) return std::nullopt;
  const auto minutes = scanner.digits(2);
  if (!minutes || *minutes > 59) return std::nullopt;
  const std::chrono::minutes offset = std::chrono::hours(*hours) + std::chrono::minutes(*minutes);
  return behind ? -offset : offset;
}

}  // namespace

WallTime system_wall_time() {
  return std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
}

std::string to_text(WallTime time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count(),
                     clock.subseconds().count());
}

std::optional<WallTime> parse_time(std::string_view text) {
  Scanner scanner(text);
  const auto date = scan_date(scanner);
  if (!date) return std::nullopt;
  if (scanner.done()) return WallTime(*date);
  if (!scanner.skip('T') && !scanner.skip(' ')) return std::nullopt;
  const auto time_of_day = scan_time_of_day(scanner);
  if (!time_of_day) return std::nullopt;
  const auto offset = scan_offset(scanner);
  if (!offset || !scanner.done()) return std::nullopt;
  return WallTime(*date) + *time_of_day - *offset;
}

bool has_rfc3339_form(std::string_view text) {
  return text.size() >= 20 && text[10] == 'T' && text.back() == 'Z' && text[16] == ':' &&
         text[text.size() - 2] != ' ';
}

}  // namespace outbox
