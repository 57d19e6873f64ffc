// A row as one JSON document: the body of application/cloudevents+json.
#pragma once

#include <string>
#include <string_view>

#include "relay/message.h"

namespace outbox {

inline constexpr std::string_view kStructuredContentType = "application/cloudevents+json";

// The attributes, and the payload as the JSON format of CloudEvents 1.0 has it:
//  - `data`, a JSON value, if the content type is JSON (*/json or *+json) and the payload is JSON;
//    it stands there byte for byte, since reading and writing it anew would change numbers;
//  - `data`, a string, if the content type is text (text/*, */xml or *+xml, in UTF-8) and the
//    payload is text;
//  - `data_base64` for everything else, so that no byte is lost, whatever the content type says;
//  - neither if the payload is empty.
//
// The row has passed cloud_event_defect() and content_type_defect(). Pure: the same row gives the
// same bytes.
std::string structured_event(const Message& message, std::string_view source);

}  // namespace outbox
