// One event as one line of JSON.
#pragma once

#include <string>

#include "relay/publisher.h"

namespace outbox {

struct EventLine {
  std::string text;   // ends with a newline and has no other one
  std::string error;  // why there is none: a text field that is not UTF-8
};

// {"id","type","time","key","destination","contentType","headers","attempt","redelivered","data"}.
// A payload that is JSON stands in `data` digit for digit (line breaks between its tokens become
// spaces); any other stands in `data_base64`. What the row does not have is left out.
EventLine event_line(const Publication& publication);

}  // namespace outbox
