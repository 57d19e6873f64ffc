// The program's log: one line an event, on stderr, for people and for collectors.
#pragma once

#include <atomic>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "relay/app/settings.h"

namespace outbox {

// One name and its value. Views what it is made from: lives as long as the call that takes it.
struct LogField {
  using Value = std::variant<std::string_view, std::int64_t, double, bool>;

  LogField(std::string_view field, std::string_view text) : name(field), value(text) {}
  LogField(std::string_view field, const char* text) : name(field), value(std::string_view(text)) {}
  LogField(std::string_view field, const std::string& text)
      : name(field), value(std::string_view(text)) {}
  LogField(std::string_view field, bool truth) : name(field), value(truth) {}
  LogField(std::string_view field, double number) : name(field), value(number) {}
  // In seconds, to the millisecond.
  LogField(std::string_view field, Duration duration);
  template <std::integral Number>
  LogField(std::string_view field, Number number)
      : name(field), value(static_cast<std::int64_t>(number)) {}

  std::string_view name;
  Value value;
};

const char* name_of(LogLevel level);

// Safe from any thread. Values are escaped, so that nothing in them can begin a line, move a
// cursor or reorder text; a line has at most 8 KiB, and says when it was cut. Never given payloads
// or secrets: callers see to that.
class Log {
 public:
  using Sink = std::function<void(std::string_view line)>;  // with its line feed
  using WallNow = std::function<std::chrono::system_clock::time_point()>;

  static constexpr std::size_t kLineMax = 8 * 1024;

  // The instance names this process among others, in each line.
  Log(LogSettings settings, std::string instance, Sink sink = to_stderr,
      WallNow now = std::chrono::system_clock::now);

  void debug(std::string_view text, std::initializer_list<LogField> fields = {});
  void info(std::string_view text, std::initializer_list<LogField> fields = {});
  void warn(std::string_view text, std::initializer_list<LogField> fields = {});
  void error(std::string_view text, std::initializer_list<LogField> fields = {});
  // Format and level of the lines from now on.
  void set(LogSettings settings);

  void write(LogLevel level, std::string_view text, std::span<const LogField> fields);

  static void to_stderr(std::string_view line);

 private:
  const std::string instance_;
  const Sink sink_;
  const WallNow now_;
  std::atomic<LogFormat> format_;
  std::atomic<LogLevel> level_;
  std::mutex mutex_;  // one line at a time
};

// "2026-11-30T18:47:50.123Z"
std::string format_time(std::chrono::system_clock::time_point time);

}  // namespace outbox
