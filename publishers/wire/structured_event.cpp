#include "publishers/wire/structured_event.h"

#include <algorithm>

#include "publishers/wire/cloud_event.h"
#include "publishers/wire/json.h"
#include "publishers/wire/text.h"

namespace outbox {

namespace {

// "application/json" of "Application/JSON; charset=utf-8".
std::string media_type_of(std::string_view content_type) {
  std::string_view type = content_type.substr(0, content_type.find(';'));
  while (type.ends_with(' ')) type.remove_suffix(1);
  return to_lower(type);
}

bool is_json_type(std::string_view media_type) {
  return media_type.ends_with("/json") || media_type.ends_with("+json");
}

bool is_text_type(std::string_view media_type) {
  return media_type.starts_with("text/") || media_type.ends_with("/xml") ||
         media_type.ends_with("+xml");
}

// Text in another charset would not be what its content type says once it stands in a JSON string.
bool is_utf8_type(std::string_view content_type) {
  const std::string lower = to_lower(content_type);
  const auto at = lower.find("charset=");
  if (at == std::string::npos) return true;
  std::string charset = lower.substr(at + 8);
  charset = charset.substr(0, charset.find(';'));
  std::erase_if(charset, [](char c) { return c == ' ' || c == '"'; });
  return charset == "utf-8" || charset == "us-ascii";
}

// Control characters are what text does not have, and each would take six bytes in JSON.
bool is_plain_text(std::string_view bytes) {
  const auto is_control = [](char c) {
    return c >= 0 && c < ' ' && c != '\t' && c != '\n' && c != '\r';
  };
  return is_valid_utf8(bytes) && std::ranges::none_of(bytes, is_control);
}

void append_data(std::string& text, std::string_view payload, std::string_view content_type) {
  if (payload.empty()) return;
  const std::string media_type = media_type_of(content_type);
  if (is_json_type(media_type) && is_json(payload)) {
    text += ",\"data\":";
    text += payload;
  } else if (is_text_type(media_type) && is_utf8_type(content_type) && is_plain_text(payload)) {
    text += ",\"data\":" + json_string(payload);
  } else {
    const std::string encoded = base64(payload);
    text.reserve(text.size() + encoded.size() + 32);  // one copy, since it may be large
    text += ",\"data_base64\":\"";
    text += encoded;
    text += '"';
  }
}

}  // namespace

std::string structured_event(const Message& message, std::string_view source) {
  const std::string_view content_type = content_type_of(message);
  std::string text = "{";
  text.reserve(message.payload.size() + 1024);
  for (const Header& attribute : cloud_event_attributes(message, source)) {
    text += json_string(attribute.name) + ':' + json_string(attribute.value) + ',';
  }
  text += "\"datacontenttype\":" + json_string(content_type);
  append_data(text, message.payload, content_type);
  text += '}';
  return text;
}

}  // namespace outbox
