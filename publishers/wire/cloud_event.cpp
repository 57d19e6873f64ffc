#include "publishers/wire/cloud_event.h"

#include <fmt/format.h>

#include "publishers/wire/fields.h"
#include "publishers/wire/text.h"
#include "publishers/wire/traceparent.h"

namespace outbox {

namespace {

std::string attribute_defect(std::string_view what, std::string_view value) {
  if (value.size() > kHeaderValueMax) {
    return fmt::format("{} is longer than {} bytes", what, kHeaderValueMax);
  }
  if (!is_valid_utf8(value)) return fmt::format("{} is not valid UTF-8", what);
  if (has_control_character(value)) return fmt::format("{} has a control character", what);
  return {};
}

}  // namespace

std::string cloud_event_defect(const Message& message) {
  if (message.id.empty()) return "the id is empty";
  if (message.event_type.empty()) return "the event type is empty";
  const std::string_view key = message.ordering_key ? *message.ordering_key : std::string_view{};
  std::string defect = attribute_defect("the id", message.id);
  if (defect.empty()) defect = attribute_defect("the event type", message.event_type);
  if (defect.empty()) defect = attribute_defect("the ordering key", key);
  if (defect.empty()) defect = attribute_defect("the time of the event", message.occurred_on);
  return defect;
}

std::vector<Header> cloud_event_attributes(const Message& message, std::string_view source) {
  std::vector<Header> attributes;
  attributes.reserve(7);
  attributes.push_back({"specversion", "1.0"});
  attributes.push_back({"id", message.id});
  attributes.push_back({"type", message.event_type});
  attributes.push_back({"source", std::string(source)});
  if (!message.occurred_on.empty()) attributes.push_back({"time", message.occurred_on});
  if (message.ordering_key && !message.ordering_key->empty()) {
    attributes.push_back({"subject", *message.ordering_key});
  }
  if (message.traceparent && is_valid_traceparent(*message.traceparent)) {
    attributes.push_back({"traceparent", *message.traceparent});
  }
  return attributes;
}

std::string_view content_type_of(const Message& message) {
  return message.content_type && !message.content_type->empty() ? *message.content_type
                                                                : kDefaultContentType;
}

std::string content_type_defect(std::string_view content_type) {
  if (std::string defect = header_value_defect(content_type); !defect.empty()) return defect;
  for (const char c : content_type) {
    if (c < ' ' || c > '~') return "has characters outside ASCII";
  }
  std::string_view media_type = content_type.substr(0, content_type.find(';'));
  while (media_type.ends_with(' ')) media_type.remove_suffix(1);
  const auto slash = media_type.find('/');
  if (slash == std::string_view::npos || !is_header_name(media_type.substr(0, slash)) ||
      !is_header_name(media_type.substr(slash + 1))) {
    return "is not a media type (type/subtype)";
  }
  return {};
}

}  // namespace outbox
