#include "relay/app/log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>

#include "relay/app/printable.h"

namespace outbox {
namespace {

constexpr std::size_t kValueMax = 2048;
constexpr std::string_view kCut = "...";

// Writes one line, as JSON or as key=value, and keeps it within the limit.
class LineWriter {
 public:
  LineWriter(LogFormat format, std::size_t limit) : format_(format), limit_(limit) {
    if (format_ == LogFormat::json) line_ += '{';
  }

  void add(std::string_view name, const LogField::Value& value) {
    // A name, quotes, separators and a cut value need some room to be worth it.
    if (line_.size() + name.size() + kLeastRoom + kTail > limit_) {
      cut_ = true;
      return;
    }
    add_name(name);
    if (const auto* text = std::get_if<std::string_view>(&value)) {
      add_text(*text);
    } else if (const auto* number = std::get_if<std::int64_t>(&value)) {
      line_ += fmt::format("{}", *number);
    } else if (const auto* decimal = std::get_if<double>(&value)) {
      line_ += std::isfinite(*decimal) ? fmt::format("{}", *decimal) : std::string("null");
    } else {
      line_ += std::get<bool>(value) ? "true" : "false";
    }
  }

  std::string finish() {
    if (cut_) {
      add_name("truncated");
      line_ += "true";
    }
    line_ += format_ == LogFormat::json ? "}\n" : "\n";
    return std::move(line_);
  }

 private:
  static constexpr std::size_t kLeastRoom = 40;
  static constexpr std::size_t kTail = 24;  // ,"truncated":true}\n

  void add_name(std::string_view name) {
    const bool json = format_ == LogFormat::json;
    if (line_.size() > (json ? 1U : 0U)) line_ += json ? ',' : ' ';
    line_ += json ? fmt::format("\"{}\":", printable(name, 64)) : printable(name, 64) + "=";
  }

  void add_text(std::string_view text) {
    const bool quoted = format_ == LogFormat::json || needs_quotes(text);
    const std::size_t room = std::min(kValueMax, limit_ - kTail - line_.size() - 2 - kCut.size());
    if (quoted) line_ += '"';
    if (!append_escaped(line_, text, room)) {
      line_ += kCut;
      cut_ = true;
    }
    if (quoted) line_ += '"';
  }

  static bool needs_quotes(std::string_view text) {
    const auto plain = [](char letter) {
      return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
             (letter >= '0' && letter <= '9') ||
             std::string_view("._-:/@+*").find(letter) != std::string_view::npos;
    };
    return text.empty() || !std::ranges::all_of(text, plain);
  }

  const LogFormat format_;
  const std::size_t limit_;
  std::string line_;
  bool cut_ = false;
};

}  // namespace

LogField::LogField(std::string_view field, Duration duration)
    : name(field),
      value(std::round(std::chrono::duration<double>(duration).count() * 1000) / 1000) {}

const char* name_of(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return "debug";
    case LogLevel::info:
      return "info";
    case LogLevel::warn:
      return "warn";
    case LogLevel::error:
      return "error";
  }
  return "info";
}

std::string format_time(std::chrono::system_clock::time_point time) {
  using std::chrono::milliseconds;
  const auto since = std::chrono::floor<milliseconds>(time.time_since_epoch());
  const auto whole = std::chrono::floor<std::chrono::seconds>(since);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                     fmt::gmtime(static_cast<std::time_t>(whole.count())), (since - whole).count());
}

Log::Log(LogSettings settings, std::string instance, Sink sink, WallNow now)
    : instance_(std::move(instance)),
      sink_(std::move(sink)),
      now_(std::move(now)),
      format_(settings.format),
      level_(settings.level) {}

void Log::set(LogSettings settings) {
  format_ = settings.format;
  level_ = settings.level;
}

void Log::debug(std::string_view text, std::initializer_list<LogField> fields) {
  write(LogLevel::debug, text, {fields.begin(), fields.size()});
}

void Log::info(std::string_view text, std::initializer_list<LogField> fields) {
  write(LogLevel::info, text, {fields.begin(), fields.size()});
}

void Log::warn(std::string_view text, std::initializer_list<LogField> fields) {
  write(LogLevel::warn, text, {fields.begin(), fields.size()});
}

void Log::error(std::string_view text, std::initializer_list<LogField> fields) {
  write(LogLevel::error, text, {fields.begin(), fields.size()});
}

void Log::write(LogLevel level, std::string_view text, std::span<const LogField> fields) {
  if (level < level_) return;
  LineWriter line(format_, kLineMax);
  line.add("time", std::string_view(format_time(now_())));
  line.add("level", std::string_view(name_of(level)));
  line.add("instance", std::string_view(instance_));
  line.add("msg", text);
  for (const auto& field : fields) line.add(field.name, field.value);
  const std::string text_line = line.finish();
  const std::lock_guard lock(mutex_);
  sink_(text_line);
}

void Log::to_stderr(std::string_view line) {
  while (!line.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // nobody to tell
    line.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace outbox
