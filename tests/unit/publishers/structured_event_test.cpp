#include "publishers/wire/structured_event.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "publishers/wire/text.h"

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

TEST_CASE("whatever the payload is, the event is JSON and gives it back") {
  const std::vector<std::string> types = {"application/json", "text/plain", "image/png",
                                          "application/xml", "a/b+json; charset=utf-16"};
  const std::vector<std::string> pieces = {"{",
                                           "}",
                                           "[",
                                           "]",
                                           "\"",
                                           "\\",
                                           ":",
                                           ",",
                                           "1",
                                           "-",
                                           ".",
                                           "e",
                                           "null",
                                           "\"k\":",
                                           " ",
                                           "\n",
                                           "\"id\":\"forged\"",
                                           "\\u0000",
                                           "\xC3\xBC",
                                           "\xC3",
                                           "\xEF\xBB\xBF",
                                           "\x7F",
                                           "\x1B",
                                           "x",
                                           std::string(1, '\0')};
  std::mt19937 random(7);
  const auto below = [&](std::size_t limit) { return random() % limit; };
  for (int round = 0; round < 20'000; ++round) {
    std::string payload;
    for (std::size_t left = below(8); left > 0; --left) payload += pieces[below(pieces.size())];
    const std::string text =
        structured_event(event_with(types[below(types.size())], payload), "/s");
    CAPTURE(text);
    const nlohmann::json event = nlohmann::json::parse(text);
    CHECK(event.at("id") == "one");
    CHECK(event.contains("data") + event.contains("data_base64") == (payload.empty() ? 0 : 1));
    std::string back;
    if (event.contains("data_base64")) {
      back = base64_decoded(std::string(event.at("data_base64"))).value();
    } else if (event.contains("data")) {
      const std::string type = event.at("datacontenttype");
      const bool is_text = type == "text/plain" || type == "application/xml";
      back =
          is_text ? std::string(event.at("data")) : text.substr(text.size() - payload.size() - 1);
      if (!is_text) back.pop_back();
    }
    CHECK((back == payload));
  }
}

TEST_CASE("JSON may nest as deeply as it likes") {
  const std::string open(1 << 20, '[');
  const std::string whole = open + std::string(1 << 20, ']');
  CHECK(structured_event(event_with("application/json", whole), "/s").ends_with(whole + "}"));
  CHECK(structured_event(event_with("application/json", open), "/s").ends_with("\"}"));
}

TEST_CASE("a structured event is the same each time") {
  const Message message = event_with("application/json", R"({"z":1,"a":[2,3]})");
  CHECK(structured_event(message, "/s") == structured_event(message, "/s"));
}

}  // namespace outbox
