#include "publishers/stdout/event_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "publishers/wire/json.h"
#include "publishers/wire/text.h"

namespace outbox {

namespace {

// Parsed and printed again, numbers would lose digits and duplicate names would vanish; so valid
// JSON is taken as it stands. Line breaks in it can only be white space: strings have none.
bool append_json(std::string& line, std::string_view payload) {
  if (!is_json(payload)) return false;
  const std::size_t start = line.size();
  line += payload;
  std::replace_if(
      line.begin() + static_cast<std::ptrdiff_t>(start), line.end(),
      [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return true;
}

void append_data(std::string& line, std::string_view payload) {
  const std::size_t start = line.size();
  line += ",\"data\":";
  if (append_json(line, payload)) return;
  line.resize(start);
  line += ",\"data_base64\":\"" + base64(payload) + '"';
}

void append_headers(std::string& line, const std::vector<Header>& headers) {
  line += ",\"headers\":{";
  bool first = true;
  for (const Header& header : headers) {
    if (!first) line += ',';
    first = false;
    line += json_string(header.name) + ':' + json_string(header.value);
  }
  line += '}';
}

std::string text_defect(const Publication& publication) {
  const Message& message = *publication.message;
  if (!is_valid_utf8(message.id)) return "the id is not valid UTF-8";
  if (!is_valid_utf8(message.event_type)) return "the event type is not valid UTF-8";
  if (!is_valid_utf8(message.occurred_on)) return "the time of the event is not valid UTF-8";
  if (!is_valid_utf8(publication.destination)) return "the destination is not valid UTF-8";
  if (!is_valid_utf8(message.ordering_key.value_or("")))
    return "the ordering key is not valid UTF-8";
  if (!is_valid_utf8(message.content_type.value_or("")))
    return "the content type is not valid UTF-8";
  std::vector<std::string_view> names;
  for (const Header& header : message.headers) {
    if (!is_valid_utf8(header.name)) return "a header's name is not valid UTF-8";
    if (!is_valid_utf8(header.value)) {
      return fmt::format("header \"{}\": its value is not valid UTF-8", header.name);
    }
    if (std::ranges::find(names, header.name) != names.end()) {
      return fmt::format("header \"{}\": the name appears twice", header.name);
    }
    names.push_back(header.name);
  }
  return {};
}

}  // namespace

EventLine event_line(const Publication& publication) {
  EventLine line;
  line.error = text_defect(publication);
  if (!line.error.empty()) return line;
  const Message& message = *publication.message;
  std::string& text = line.text;
  text.reserve(message.payload.size() + 512);
  text += "{\"id\":" + json_string(message.id) + ",\"type\":" + json_string(message.event_type);
  if (!message.occurred_on.empty()) text += ",\"time\":" + json_string(message.occurred_on);
  if (message.ordering_key) text += ",\"key\":" + json_string(*message.ordering_key);
  if (!publication.destination.empty())
    text += ",\"destination\":" + json_string(publication.destination);
  if (message.content_type) text += ",\"contentType\":" + json_string(*message.content_type);
  append_headers(text, message.headers);
  text += fmt::format(",\"attempt\":{},\"redelivered\":{}", publication.attempt,
                      publication.redelivered);
  append_data(text, message.payload);
  text += "}\n";
  return line;
}

}  // namespace outbox
