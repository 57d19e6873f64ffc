#include "storage/mapping/headers.h"

#include <doctest/doctest.h>

namespace outbox::sqlite {
namespace {

std::vector<Header> read(const std::string& json) {
  std::vector<Header> headers;
  const auto defect = parse_headers(json, headers);
  REQUIRE_MESSAGE(!defect.has_value(), defect.value_or(""));
  return headers;
}

std::string defect_of(const std::string& json) {
  std::vector<Header> headers;
  const auto defect = parse_headers(json, headers);
  REQUIRE(defect.has_value());
  CHECK(headers.empty());
  return *defect;
}

bool mentions(const std::string& text, const std::string& word) {
  return text.find(word) != std::string::npos;
}

TEST_CASE("texts, numbers and booleans become headers in their order") {
  CHECK(read(R"({"b": "text", "a": 7, "c": -3, "d": 1.50, "e": true, "f": false})") ==
        std::vector<Header>{
            {"b", "text"}, {"a", "7"}, {"c", "-3"}, {"d", "1.50"}, {"e", "true"}, {"f", "false"}});
  CHECK(read("{}").empty());
  CHECK(read(R"( {"umlaut": "\u00e4"} )") == std::vector<Header>{{"umlaut", "\xc3\xa4"}});
}

TEST_CASE("a number too long for a machine keeps its digits") {
  CHECK(read(R"({"n": 123456789012345678901234567890})")[0].value ==
        "123456789012345678901234567890");
}

TEST_CASE("broken JSON is told with its place") {
  CHECK(mentions(defect_of(R"({"a": )"), "byte"));
  CHECK(mentions(defect_of(R"({"a": "b"} x)"), "byte 12"));
  CHECK(mentions(defect_of(""), "JSON"));
  CHECK(mentions(defect_of("{\"a\": \"\xff\"}"), "byte"));
}

TEST_CASE("values that no header can have are told with their member") {
  CHECK(mentions(defect_of(R"({"a": "b", "c": null})"), "member 2 ('c') is null"));
  CHECK(mentions(defect_of(R"({"a": {"b": "c"}})"), "member 1 ('a') is an object"));
  CHECK(mentions(defect_of(R"({"a": []})"), "is an array"));
}

TEST_CASE("what is no object is refused") {
  CHECK(mentions(defect_of("[]"), "not a JSON object"));
  CHECK(mentions(defect_of("\"text\""), "not a JSON object"));
  CHECK(mentions(defect_of("null"), "not a JSON object"));
  CHECK(mentions(defect_of("12"), "not a JSON object"));
}

TEST_CASE("a name may stand once") {
  CHECK(mentions(defect_of(R"({"a": "1", "b": "2", "a": "3"})"), "member 3 repeats the name 'a'"));
}

TEST_CASE("more members than any message has are refused") {
  std::string json = "{";
  for (int i = 0; i < 1001; ++i) json += "\"h" + std::to_string(i) + "\": 1,";
  json.back() = '}';
  CHECK(mentions(defect_of(json), "more than 1000"));
}

TEST_CASE("depth is no way to exhaust the stack") {
  CHECK(mentions(defect_of(std::string(1'000'000, '[')), "not a JSON object"));
}

TEST_CASE("UTF-8 is accepted in its shortest forms only") {
  CHECK(is_utf8(""));
  CHECK(is_utf8("plain"));
  CHECK(is_utf8("\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80 \xf4\x8f\xbf\xbf"));
  for (const char* text :
       {"\x80", "\xc3", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf0\x80\x80\xaf",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "ok \xe2\x82", "\xe2\x28\xa1"}) {
    CAPTURE(text);
    CHECK_FALSE(is_utf8(text));
  }
}

}  // namespace
}  // namespace outbox::sqlite
