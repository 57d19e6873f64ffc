#include "publishers/stdout/event_line.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

namespace outbox {

namespace {

EventLine line_of(const std::string& payload) {
  Message message;
  message.id = "1";
  message.payload = payload;
  Publication publication;
  publication.message = &message;
  return event_line(publication);
}

}  // namespace

TEST_CASE("an event is one line of JSON") {
  Message message;
  message.id = "id \"1\"\n";
  message.event_type = "order.created";
  message.occurred_on = "2024-01-01T00:00:00Z";
  message.ordering_key = "k";
  message.content_type = "application/json";
  message.headers = {{"X-A", "gr\xC3\xBC\xC3\x9F"}};
  message.payload = "{\r\n \"a\": 1.50}";
  Publication publication;
  publication.message = &message;
  publication.destination = "orders";
  publication.attempt = 2;
  publication.redelivered = true;
  CHECK(event_line(publication).text ==
        "{\"id\":\"id \\\"1\\\"\\n\",\"type\":\"order.created\",\"time\":\"2024-01-01T00:00:00Z\","
        "\"key\":\"k\",\"destination\":\"orders\",\"contentType\":\"application/json\","
        "\"headers\":{\"X-A\":\"gr\xC3\xBC\xC3\x9F\"},\"attempt\":2,\"redelivered\":true,"
        "\"data\":{   \"a\": 1.50}}\n");
}

TEST_CASE("any payload makes a line that parses") {
  for (const std::string& payload :
       {std::string{}, std::string("null"), std::string("[1,2]"), std::string("\"a\\nb\""),
        std::string("not json"), std::string("{\"a\":1}{\"b\":2}"), std::string("\xEF\xBB\xBF{}"),
        std::string("\"\xFF\""), std::string("\0", 1), std::string("{\"a\":\n\n\r1}"),
        std::string("1e999"), std::string(100000, '[')}) {
    CAPTURE(payload.substr(0, 20));
    const EventLine line = line_of(payload);
    CHECK(line.error.empty());
    CHECK(line.text.find('\n') == line.text.size() - 1);
    const auto event = nlohmann::json::parse(line.text, nullptr, false);
    // 1e999 is lawful JSON, but no number that this parser holds.
    CHECK((!event.is_discarded() || payload == "1e999"));
    if (!event.is_discarded()) CHECK(event.contains("data") != event.contains("data_base64"));
  }
}

TEST_CASE("JSON keeps its digits and its order, and the rest its bytes") {
  CHECK(line_of(R"({"z":0.10000000000000000000001,"a":1,"a":2})")
            .text.find(R"("data":{"z":0.10000000000000000000001,"a":1,"a":2}})") !=
        std::string::npos);
  CHECK(line_of(std::string("{}\0", 3)).text.find("\"data_base64\":\"e30A\"") != std::string::npos);
  CHECK(line_of(std::string("\x00\xFF", 2)).text.find("\"data_base64\":\"AP8=\"") !=
        std::string::npos);
}

TEST_CASE("text that is not UTF-8 is refused, and named") {
  Message message;
  message.id = "1";
  Publication publication;
  publication.message = &message;
  message.ordering_key = "\xFF";
  CHECK(event_line(publication).error == "the ordering key is not valid UTF-8");
  message.ordering_key.reset();
  message.headers = {{"X-A", "\xC3\x28"}};
  CHECK(event_line(publication).error == "header \"X-A\": its value is not valid UTF-8");
  message.headers = {{"X-A", "1"}, {"X-A", "2"}};
  CHECK(event_line(publication).error == "header \"X-A\": the name appears twice");
}

}  // namespace outbox
