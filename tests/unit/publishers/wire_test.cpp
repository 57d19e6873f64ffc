#include <doctest/doctest.h>

#include <array>

#include "publishers/wire/cloud_event.h"
#include "publishers/wire/fields.h"
#include "publishers/wire/path.h"
#include "publishers/wire/traceparent.h"

namespace outbox {

namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string value_of(const std::vector<Header>& attributes, const std::string& name) {
  for (const Header& attribute : attributes) {
    if (attribute.name == name) return attribute.value;
  }
  return "(none)";
}

}  // namespace

TEST_CASE("a traceparent is valid as the recommendation defines it") {
  const std::string good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  CHECK(is_valid_traceparent(good));
  CHECK(is_valid_traceparent("cc" + good.substr(2)));
  CHECK(is_valid_traceparent("cc" + good.substr(2) + "-what-the-future-brings"));
  for (const std::string& bad :
       {std::string{}, good.substr(1), good + "-more", "ff" + good.substr(2),
        "cc" + good.substr(2) + ".more", "cc" + good.substr(2) + "-a b",
        std::string("00-00000000000000000000000000000000-b7ad6b7169203331-01"),
        std::string("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01"),
        std::string("00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01"),
        std::string("00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        std::string("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0g")}) {
    CAPTURE(bad);
    CHECK_FALSE(is_valid_traceparent(bad));
  }
}

TEST_CASE("headers that frame, route, authorise or belong to the relay are reserved") {
  for (const char* name :
       {"ce-id", "CE-Anything", "Content-Type", "content-length", "Host", "Authorization",
        "Connection", "Transfer-Encoding", "Idempotency-Key", "webhook-id", "Outbox-Attempt", "TE",
        "Trailer", "Upgrade", "Keep-Alive", "Proxy-Authorization", "proxy-connection", "Expect"}) {
    CAPTURE(name);
    CHECK(is_reserved_http_header(name));
    const std::string defect = http_headers_defect({{name, "x"}});
    CHECK(contains(defect, name));
    CHECK(contains(defect, "reserved"));
  }
  for (const char* name : {"X-Tenant", "cedar", "contents", "Accept", "tea", "traceparent"}) {
    CAPTURE(name);
    CHECK(http_headers_defect({{name, "x"}}).empty());
  }
}

TEST_CASE("headers are bounded in number and size, at the limit exactly") {
  std::vector<Header> headers;
  for (std::size_t i = 0; i < kHeadersMax; ++i) headers.push_back({"X-" + std::to_string(i), "v"});
  CHECK(http_headers_defect(headers).empty());
  headers.push_back({"X-One-More", "v"});
  CHECK(contains(http_headers_defect(headers), "65 headers"));

  CHECK(http_headers_defect({{std::string(kHeaderNameMax, 'n'), ""}}).empty());
  CHECK(contains(http_headers_defect({{std::string(kHeaderNameMax + 1, 'n'), ""}}), "256"));
  CHECK(http_headers_defect({{"X", std::string(kHeaderValueMax, 'v')}}).empty());
  CHECK(contains(http_headers_defect({{"X", std::string(kHeaderValueMax + 1, 'v')}}), "8192"));

  std::vector<Header> heavy = {{"A", std::string(kHeaderValueMax, 'v')},
                               {"B", std::string(kHeaderValueMax - 2, 'v')}};
  CHECK(http_headers_defect(heavy).empty());
  heavy.push_back({"C", ""});
  CHECK(contains(http_headers_defect(heavy), "16384"));
}

TEST_CASE("one name in two spellings is one field and refused") {
  CHECK(contains(http_headers_defect({{"X-A", "1"}, {"x-a", "2"}}), "twice"));
}

TEST_CASE("a configured header is not replaced by a row's") {
  const std::array<std::string, 1> taken = {"x-api-key"};
  CHECK(contains(http_headers_defect({{"X-Api-Key", "mine"}}, taken), "configured"));
}

TEST_CASE("a bad header is named without what makes it bad") {
  const std::string defect = http_headers_defect({{"X\r\nInjected: 1", "x"}});
  CHECK(contains(defect, "X??Injected"));
  CHECK(defect.find_first_of("\r\n") == std::string::npos);
  CHECK_FALSE(contains(http_headers_defect({{"X", "secret\n"}}), "secret"));
}

TEST_CASE("a destination is a place below the URL") {
  CHECK(append_destination("/", "").text == "/");
  CHECK(append_destination("/inbox", "").text == "/inbox");
  CHECK(append_destination("/", "orders").text == "/orders");
  CHECK(append_destination("/inbox/", "orders/new").text == "/inbox/orders/new");
  CHECK(append_destination("/inbox", "http://evil.example/x").error != "");
  CHECK(append_destination("/inbox", "evil.example:80").text == "/inbox/evil.example%3A80");
  CHECK(append_destination("/inbox", "@evil?x=1#f").text == "/inbox/%40evil%3Fx%3D1%23f");
  CHECK(append_destination("/inbox", "%2e%2e").text == "/inbox/%252e%252e");
  CHECK(append_destination("/inbox", "..;").text == "/inbox/..%3B");
  CHECK(append_destination("/inbox", "...").text == "/inbox/...");
  for (const std::string& bad :
       {std::string(".."), std::string("a/../b"), std::string("."), std::string("a/./b"),
        std::string("/a"), std::string("a/"), std::string("a//b"), std::string("/"),
        std::string("a\nb"), std::string("a\0b", 3), std::string("\xC3\x28"),
        std::string(3000, 'a')}) {
    CAPTURE(bad);
    CHECK(append_destination("/inbox", bad).error != "");
  }
}

TEST_CASE("a row's attributes are those of a CloudEvent") {
  Message message;
  message.id = "1";
  message.event_type = "order.created";
  message.occurred_on = "2024-01-01T00:00:00Z";
  std::vector<Header> attributes = cloud_event_attributes(message, "/source");
  CHECK(value_of(attributes, "specversion") == "1.0");
  CHECK(value_of(attributes, "id") == "1");
  CHECK(value_of(attributes, "type") == "order.created");
  CHECK(value_of(attributes, "source") == "/source");
  CHECK(value_of(attributes, "time") == "2024-01-01T00:00:00Z");
  CHECK(value_of(attributes, "subject") == "(none)");
  CHECK(value_of(attributes, "traceparent") == "(none)");
  message.ordering_key = "k";
  message.traceparent = "malformed";
  attributes = cloud_event_attributes(message, "/source");
  CHECK(value_of(attributes, "subject") == "k");
  CHECK(value_of(attributes, "traceparent") == "(none)");
}

TEST_CASE("a row that is no CloudEvent says what is wrong") {
  Message message;
  message.event_type = "t";
  CHECK(contains(cloud_event_defect(message), "id is empty"));
  message.id = "1";
  CHECK(cloud_event_defect(message).empty());
  message.ordering_key = "a\tb";
  CHECK(contains(cloud_event_defect(message), "ordering key has a control character"));
  message.ordering_key = "\xFF";
  CHECK(contains(cloud_event_defect(message), "ordering key is not valid UTF-8"));
  message.ordering_key = std::string(kHeaderValueMax + 1, 'k');
  CHECK(contains(cloud_event_defect(message), "longer than 8192"));
  message.ordering_key.reset();
  message.event_type.clear();
  CHECK(contains(cloud_event_defect(message), "event type is empty"));
}

TEST_CASE("a content type is a media type") {
  for (const char* good : {"application/json", "text/plain; charset=utf-8",
                           "application/vnd.acme.order+json", "a/b;c=\"d e\""}) {
    CAPTURE(good);
    CHECK(content_type_defect(good).empty());
  }
  for (const char* bad : {"json", "/json", "text/", "text/pl ain", "text/plain\r\nX: 1", "a;b/c",
                          "text/\xC3\xBC", " text/plain", "te xt/plain"}) {
    CAPTURE(bad);
    CHECK_FALSE(content_type_defect(bad).empty());
  }
  Message message;
  CHECK(content_type_of(message) == "application/json");
  message.content_type = "text/plain";
  CHECK(content_type_of(message) == "text/plain");
}

}  // namespace outbox
