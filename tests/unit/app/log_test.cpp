// The log's lines: their shape, their limits, and that nothing can break out of them.
#include "relay/app/log.h"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

namespace outbox {
namespace {

using nlohmann::json;

// A log whose lines are kept, at a time that does not move.
struct LogFixture {
  explicit LogFixture(LogFormat format = LogFormat::json, LogLevel level = LogLevel::debug)
      : log(
            {format, level}, "pod-1", [this](std::string_view line) { lines.emplace_back(line); },
            [] {
              return std::chrono::system_clock::time_point{std::chrono::milliseconds{1'042}};
            }) {}

  std::vector<std::string> lines;
  Log log;
};

TEST_CASE("a line is one JSON object with time, level, instance and message first") {
  LogFixture fixture;
  fixture.log.info("hello", {{"count", 3},
                             {"ratio", 0.5},
                             {"good", true},
                             {"name", "x"},
                             {"wait_seconds", Duration{std::chrono::milliseconds{1'500}}}});
  REQUIRE(fixture.lines.size() == 1);
  CHECK(fixture.lines[0] ==
        R"({"time":"1970-01-01T00:00:01.042Z","level":"info","instance":"pod-1","msg":"hello",)"
        R"("count":3,"ratio":0.5,"good":true,"name":"x","wait_seconds":1.5})"
        "\n");
  CHECK(json::parse(fixture.lines[0])["wait_seconds"] == 1.5);
}

TEST_CASE("a text line has the same as key=value, quoted where it must be") {
  LogFixture fixture(LogFormat::text);
  fixture.log.warn("two words", {{"url", "https://h/x"}, {"empty", ""}, {"quote", "a\"b"}});
  CHECK(fixture.lines[0] ==
        "time=1970-01-01T00:00:01.042Z level=warn instance=pod-1 msg=\"two words\" "
        "url=https://h/x empty=\"\" quote=\"a\\\"b\"\n");
}

TEST_CASE("lines below the level are not written") {
  LogFixture fixture(LogFormat::json, LogLevel::warn);
  fixture.log.debug("a");
  fixture.log.info("b");
  fixture.log.warn("c");
  fixture.log.error("d");
  REQUIRE(fixture.lines.size() == 2);
  CHECK(json::parse(fixture.lines[0])["level"] == "warn");
  CHECK(json::parse(fixture.lines[1])["level"] == "error");
}

TEST_CASE("no text can begin a line, move a cursor or reorder what is shown") {
  for (const auto format : {LogFormat::json, LogFormat::text}) {
    LogFixture fixture(format);
    fixture.log.info("a\nlevel=error\r\x1b[2J",
                     {{"id", "\u202egnp.exe\u2066"}, {"nul", std::string(1, '\0')}});
    REQUIRE(fixture.lines.size() == 1);
    const auto& line = fixture.lines[0];
    CHECK(std::count(line.begin(), line.end(), '\n') == 1);
    for (const char* part : {"\r", "\x1b", "\u202e", "\u2066"}) {
      CHECK(line.find(part) == std::string::npos);
    }
    CHECK(line.find("\\u202egnp.exe\\u2066") != std::string::npos);
    CHECK(line.find('\0') == std::string::npos);
  }
}

TEST_CASE("a JSON line gives back the text that went in") {
  LogFixture fixture;
  const std::string text = "a\"b\\c\n\t\u00e4\u202e\U0001F600\U000E0041\x1b";
  fixture.log.info(text);
  CHECK(json::parse(fixture.lines[0])["msg"] == text);
}

TEST_CASE("bytes that are not UTF-8 don't spoil a line") {
  LogFixture fixture;
  fixture.log.info("x", {{"id", "a\xff\xc3"}});
  CHECK(json::parse(fixture.lines[0])["id"] == "a\ufffd\ufffd");
}

TEST_CASE("a line has at most 8 KiB, stays whole, and says that it was cut") {
  for (const char* filler : {"x", "\n", "\u00e4", "\xff", "\U000E0041"}) {
    std::string text;
    while (text.size() < 100'000) text += filler;
    for (const auto format : {LogFormat::json, LogFormat::text}) {
      LogFixture fixture(format);
      fixture.log.error(text, {{"a", text}, {"b", text}, {"c", text}, {"d", text}, {"e", 1}});
      REQUIRE(fixture.lines.size() == 1);
      const auto& line = fixture.lines[0];
      CHECK(line.size() <= Log::kLineMax);
      CHECK(line.back() == '\n');
      if (format == LogFormat::text) {
        CHECK(line.find("truncated=true") != std::string::npos);
        continue;
      }
      const auto parsed = json::parse(line);
      CHECK(parsed["truncated"] == true);
      CHECK(parsed["level"] == "error");
    }
  }
}

TEST_CASE("many fields don't lengthen a line beyond its limit") {
  LogFixture fixture;
  std::vector<LogField> fields;
  for (int index = 0; index < 2'000; ++index) fields.emplace_back("field", "value");
  fixture.log.write(LogLevel::info, "x", fields);
  CHECK(fixture.lines[0].size() <= Log::kLineMax);
  CHECK(json::parse(fixture.lines[0])["truncated"] == true);
}

TEST_CASE("a number that JSON can't hold is null") {
  LogFixture fixture;
  fixture.log.info("x", {{"a", std::nan("")}, {"b", HUGE_VAL}});
  CHECK(json::parse(fixture.lines[0])["a"].is_null());
  CHECK(json::parse(fixture.lines[0])["b"].is_null());
}

TEST_CASE("times are UTC to the millisecond, rounded down, also before 1970") {
  using std::chrono::milliseconds;
  const auto at = [](std::int64_t count) {
    return format_time(std::chrono::system_clock::time_point{milliseconds{count}});
  };
  CHECK(at(0) == "1970-01-01T00:00:00.000Z");
  CHECK(at(1'709'210'096'789) == "2024-02-29T12:34:56.789Z");
  CHECK(at(-1) == "1969-12-31T23:59:59.999Z");
}

TEST_CASE("lines of several threads don't mix") {
  std::vector<std::string> lines;  // the log's mutex guards it
  Log log({}, "pod-1", [&](std::string_view line) { lines.emplace_back(line); });
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&log] {
      for (int index = 0; index < 200; ++index) log.info("line", {{"index", index}});
    });
  }
  threads.clear();
  CHECK(lines.size() == 800);
}

}  // namespace
}  // namespace outbox
