// A row's destination as a path below the broker's URL.
#pragma once

#include <string>
#include <string_view>

namespace outbox {

struct Path {
  std::string text;
  std::string error;  // why there is none; empty if there is one
};

// Appends the destination's segments, each percent-encoded, to `base` (which begins with a slash).
// An empty destination is the base itself. Empty, `.` and `..` segments are refused: a row chooses
// a place below the URL and nothing else.
Path append_destination(std::string_view base, std::string_view destination);

}  // namespace outbox
