#include "publishers/wire/text.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace outbox {

TEST_CASE("only strict UTF-8 is UTF-8") {
  for (const char* good : {"", "abc", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF",
                           "\xEE\x80\x80", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    CAPTURE(good);
    CHECK(is_valid_utf8(good));
  }
  for (const char* bad :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xC2", "\xC2\x41", "\xE0\x9F\xBF", "\xE2\x82",
        "\xED\xA0\x80", "\xED\xBF\xBF", "\xF0\x8F\xBF\xBF", "\xF0\x9F\x98", "\xF4\x90\x80\x80",
        "\xF5\x80\x80\x80", "\xFF", "ok\xFE"}) {
    CAPTURE(bad);
    CHECK_FALSE(is_valid_utf8(bad));
  }
}

TEST_CASE("control characters of both blocks are found") {
  for (int byte = 0; byte < 0x20; ++byte) {
    CHECK(has_control_character(std::string("a") + static_cast<char>(byte)));
  }
  CHECK(has_control_character("\x7F"));
  CHECK(has_control_character("\xC2\x80"));
  CHECK(has_control_character("\xC2\x9F"));
  CHECK_FALSE(has_control_character("\xC2\xA0"));
  CHECK_FALSE(has_control_character("plain text ~"));
  CHECK_FALSE(has_control_character("\xC3\x80"));
}

TEST_CASE("header names are tokens") {
  CHECK(is_header_name("X-Tenant_1.2"));
  CHECK(is_header_name("!#$%&'*+-.^_`|~09azAZ"));
  for (const char* bad :
       {"", "a b", "a:b", "a\r", "a(b)", "\"a\"", "\xC3\xBC", "a/b", "a,b", "a@b"}) {
    CAPTURE(bad);
    CHECK_FALSE(is_header_name(bad));
  }
  CHECK_FALSE(is_header_name(std::string("a\0b", 3)));
}

TEST_CASE("attributes are percent-encoded as the CloudEvents HTTP binding says") {
  CHECK(percent_encode_attribute("Euro \xE2\x82\xAC \xF0\x9F\x98\x80") ==
        "Euro%20%E2%82%AC%20%F0%9F%98%80");
  CHECK(percent_encode_attribute("a\"b%c") == "a%22b%25c");
  CHECK(percent_encode_attribute("!#$&'()*+,-./:;<=>?@[\\]^_`{|}~") ==
        "!#$&'()*+,-./:;<=>?@[\\]^_`{|}~");
  CHECK(percent_encode_attribute("\x7F\n") == "%7F%0A");
}

TEST_CASE("a path segment keeps only unreserved characters") {
  CHECK(percent_encode_segment("AZaz09-._~") == "AZaz09-._~");
  CHECK(percent_encode_segment("a/b?c#d;e:f%2e \xC3\xBC") == "a%2Fb%3Fc%23d%3Be%3Af%252e%20%C3%BC");
}

TEST_CASE("base64 is padded") {
  CHECK(base64("") == "");
  CHECK(base64("f") == "Zg==");
  CHECK(base64("fo") == "Zm8=");
  CHECK(base64("foo") == "Zm9v");
  CHECK(base64(std::string("\x00\xFF\xFE", 3)) == "AP/+");
}

TEST_CASE("base64 is read strictly") {
  for (const std::string& bytes : {std::string{}, std::string("f"), std::string("fo"),
                                   std::string("foo"), std::string("\x00\xFF\xFE\x80", 4)}) {
    REQUIRE(base64_decoded(base64(bytes)).has_value());
    CHECK((*base64_decoded(base64(bytes)) == bytes));
  }
  for (const char* bad : {"Z", "Zg", "Zg=", "Zg===", "Z===", "====", "=Zg=", "Zm9v\n", "Zm9 ",
                          "AP-_", "Zh==", "Zm9=", "Zg==Zg=="}) {
    CAPTURE(bad);
    CHECK_FALSE(base64_decoded(bad).has_value());
  }
}

TEST_CASE("text is cut between characters") {
  const std::string text = "a\xc3\xa9\xe2\x82\xac";  // of one, two and three bytes
  for (std::size_t size = 0; size <= text.size() + 1; ++size) {
    const std::string cut = cut_text(text, size);
    CHECK(cut.size() <= size);
    CHECK(is_valid_utf8(cut));
    CHECK(text.starts_with(cut));
    CHECK(cut.size() + 3 > std::min(size, text.size()));
  }
  CHECK(cut_text(text, 6) == text);
}

}  // namespace outbox
