// What an HTTP answer means for a message.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "relay/publisher.h"

namespace outbox {

// The parts of an answer that count. The body never does.
struct HttpAnswer {
  int status = 0;
  std::string retry_after;
  std::string date;
};

struct Judgement {
  Outcome outcome = Outcome::transport;
  Duration wait{0};  // throttled: how long the receiver asks to wait, at most an hour
};

using WallTime = std::chrono::sys_seconds;

// 2xx confirmed; 408, 425, 5xx and what is no final answer transport; 429, and 503 with
// Retry-After, throttled; 3xx, 401, 403, 404, 405, 407, 410 misconfigured; 409 conflict; other 4xx
// refused.
Judgement judge(const HttpAnswer& answer, WallTime now);

// Seconds, or a date in one of the three forms of RFC 9110; nothing if it is neither. A date counts
// from the answer's own Date if that can be read, so that the clocks need not agree; else from
// `now`. Never negative, at most an hour.
std::optional<Duration> retry_after(std::string_view value, std::string_view date, WallTime now);

}  // namespace outbox
