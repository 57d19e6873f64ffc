// W3C Trace Context.
#pragma once

#include <string_view>

namespace outbox {

// Whether `value` is a traceparent header as the recommendation defines it. Versions after 00 may
// carry more fields behind a dash; ff and all-zero ids are invalid. A malformed one must not be
// sent: the receiver would have to restart the trace anyway.
bool is_valid_traceparent(std::string_view value);

}  // namespace outbox
