#include "publishers/wire/structured_event.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

namespace outbox {

namespace {

Message event_with(const std::string& content_type, const std::string& payload) {
  Message message;
  message.id = "one";
  message.event_type = "order.placed";
  message.occurred_on = "2024-05-06T07:08:09.123Z";
  message.content_type = content_type;
  message.payload = payload;
  return message;
}

nlohmann::json parsed(const Message& message) {
  return nlohmann::json::parse(structured_event(message, "/test/outbox"));
}

}  // namespace

TEST_CASE("a structured event carries each attribute that the row has, and no other") {
  Message message = event_with("application/json", R"({"n":1})");
  message.id = "id \"1\" 100%";
  message.ordering_key = "M\xC3\xBCnchen \\ \xF0\x9F\x98\x80";
  message.traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  const nlohmann::json event = parsed(message);
  CHECK(event == nlohmann::json{{"specversion", "1.0"},
                                {"id", message.id},
                                {"type", "order.placed"},
                                {"source", "/test/outbox"},
                                {"time", "2024-05-06T07:08:09.123Z"},
                                {"subject", *message.ordering_key},
                                {"traceparent", *message.traceparent},
                                {"datacontenttype", "application/json"},
                                {"data", {{"n", 1}}}});
  Message bare = event_with("", "[]");
  bare.content_type.reset();
  bare.occurred_on.clear();
  CHECK(parsed(bare) == nlohmann::json{{"specversion", "1.0"},
                                       {"id", "one"},
                                       {"type", "order.placed"},
                                       {"source", "/test/outbox"},
                                       {"datacontenttype", "application/json"},
                                       {"data", nlohmann::json::array()}});
}

TEST_CASE("JSON stands in the event byte for byte") {
  for (const std::string payload :
       {R"({"big":12345678901234567890.10,"a":1,"a":2})", "{ \"a\" :\n\t1.0 }", "null", "false",
        "0", "\"text\"", "[]", "-0.0", "1e2", R"("\u00fc\/")", "\"gr\xC3\xBC\xC3\x9F\""}) {
    for (const char* type : {"application/json", "APPLICATION/JSON ; charset=utf-8",
                             "application/vnd.order+json", "text/json"}) {
      CAPTURE(payload);
      const std::string text = structured_event(event_with(type, payload), "/s");
      CHECK(text.ends_with(",\"data\":" + payload + "}"));
      CHECK(nlohmann::json::accept(text));
    }
  }
}

TEST_CASE("what calls itself JSON and is not travels as base64, without a byte lost") {
  for (const std::string& payload :
       {std::string("{\"n\":1"), std::string("{} {}"), std::string("{},\"id\":\"forged\""),
        std::string("NaN"), std::string("'x'"), std::string("\xEF\xBB\xBF{}"),
        std::string("\"\xC3\x28\""), std::string("\"\\ud800\""), std::string("{}\0", 3),
        std::string(" "), std::string("// comment\n{}")}) {
    CAPTURE(payload);
    const nlohmann::json event = parsed(event_with("application/json", payload));
    CHECK(event.at("id") == "one");
    CHECK_FALSE(event.contains("data"));
    CHECK(event.at("data_base64").is_string());
    CHECK(event.at("datacontenttype") == "application/json");
  }
  const nlohmann::json event = parsed(event_with("application/json", "{\"n\":"));
  CHECK(event.at("data_base64") == "eyJuIjo=");
}

TEST_CASE("text travels as a string, in UTF-8 and unchanged") {
  for (const char* type :
       {"text/plain", "TEXT/PLAIN", "application/xml", "image/svg+xml", "text/plain; charset=utf-8",
        "text/plain;charset=\"UTF-8\"; x=y", "text/csv; charset=us-ascii"}) {
    const std::string payload = "<a b=\"c\">gr\xC3\xBC\xC3\x9F \\ \xF0\x9F\x98\x80</a>\r\n\tend";
    const nlohmann::json event = parsed(event_with(type, payload));
    CAPTURE(type);
    CHECK(event.at("data") == payload);
    CHECK_FALSE(event.contains("data_base64"));
    CHECK(event.at("datacontenttype") == type);
  }
}

TEST_CASE("what is no text travels as base64") {
  struct Row {
    const char* type;
    std::string payload;
    const char* expected;
  };
  for (const Row& row : std::initializer_list<Row>{
           {"application/octet-stream", "text", "dGV4dA=="},
           {"application/protobuf", std::string("\x00\xFF", 2), "AP8="},
           {"application/jsonlines", "{}", "e30="},
           {"text/plain", "\xC3\x28", "wyg="},
           {"text/plain", std::string("\0", 1), "AA=="},
           {"text/plain", "\x1B[0m", "G1swbQ=="},
           {"text/plain; charset=iso-8859-1", "text", "dGV4dA=="},
           {"text/plain; charset=utf-16", "text", "dGV4dA=="},
       }) {
    CAPTURE(row.type);
    const nlohmann::json event = parsed(event_with(row.type, row.payload));
    CHECK(event.at("data_base64") == row.expected);
    CHECK_FALSE(event.contains("data"));
  }
}

TEST_CASE("an empty payload is no data, whatever its type") {
  for (const char* type : {"application/json", "text/plain", "application/octet-stream"}) {
    const nlohmann::json event = parsed(event_with(type, ""));
    CHECK_FALSE(event.contains("data"));
    CHECK_FALSE(event.contains("data_base64"));
    CHECK(event.at("datacontenttype") == type);
  }
}

TEST_CASE("a structured event is the same each time") {
  const Message message = event_with("application/json", R"({"z":1,"a":[2,3]})");
  CHECK(structured_event(message, "/s") == structured_event(message, "/s"));
}

}  // namespace outbox
