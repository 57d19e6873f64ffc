#include "metrics/label_text.h"

#include <doctest/doctest.h>

namespace outbox {
namespace {

TEST_CASE("only valid UTF-8 without control characters is a label") {
  for (const char* good : {"a", "asset.created", "gr\xc3\xbc\xc3\x9f", "\xe2\x82\xac",
                           "\xed\x9f\xbf", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf"}) {
    CAPTURE(good);
    CHECK(is_label_text(good, 100));
  }
  for (const char* bad :
       {"", "\n", "\x7f", "\x80", "\xc0\xaf", "\xc3", "\xc3(", "\xe0\x80\x80", "\xed\xa0\x80",
        "\xe2\x82", "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xff"}) {
    CAPTURE(bad);
    CHECK_FALSE(is_label_text(bad, 100));
  }
  CHECK_FALSE(is_label_text(std::string_view("a\0b", 3), 100));
  CHECK_FALSE(is_label_text("abcd", 3));
}

TEST_CASE("a broker's URL is shown without anything secret") {
  CHECK(without_secrets("https://events.example.com/inbox") == "https://events.example.com/inbox");
  CHECK(without_secrets("amqp://user:pass@mq:5672/vhost") == "amqp://mq:5672/vhost");
  CHECK(without_secrets("amqp://user:p@ss@mq/vhost") == "amqp://mq/vhost");
  CHECK(without_secrets("https://h/inbox?token=x#y") == "https://h/inbox");
  CHECK(without_secrets("amqp://user:pa/ss@mq") == "amqp://...");
  CHECK(without_secrets("amqp://user:pa?ss@mq") == "amqp://...");
  CHECK(without_secrets("stdout:") == "stdout:");
  CHECK(without_secrets("user:pass@host") == "host");
  CHECK(without_secrets("") == "");
}

}  // namespace
}  // namespace outbox
