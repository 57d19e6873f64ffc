// A row as a CloudEvents 1.0 event: the attributes that every binding carries in its own way.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "relay/message.h"

namespace outbox {

inline constexpr std::string_view kDefaultContentType = "application/json";

// Why the row is no CloudEvent; empty if it is one. CloudEvents wants id and type non-empty and all
// attributes free of control characters.
std::string cloud_event_defect(const Message& message);

// specversion, id, type, source, time, subject (the ordering key), traceparent: names without a
// binding's prefix, values not encoded. What the row does not have is left out, and so is a
// malformed traceparent. datacontenttype is left to the binding.
std::vector<Header> cloud_event_attributes(const Message& message, std::string_view source);

// The row's content type or the default.
std::string_view content_type_of(const Message& message);

// Why it can't be a content type, as the end of a sentence; empty if it can.
std::string content_type_defect(std::string_view content_type);

}  // namespace outbox
