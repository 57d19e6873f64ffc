#include "publishers/wire/path.h"

#include <fmt/format.h>

#include <algorithm>

#include "publishers/wire/text.h"

namespace outbox {

namespace {

constexpr std::size_t kDestinationMax = 2048;

std::string segment_defect(std::string_view segment) {
  if (segment.empty()) return "an empty segment (a slash at an end, or two in a row)";
  if (segment == "." || segment == "..") return fmt::format("the segment \"{}\"", segment);
  return {};
}

std::string destination_defect(std::string_view destination) {
  if (destination.size() > kDestinationMax) {
    return fmt::format("the destination is longer than {} bytes", kDestinationMax);
  }
  if (!is_valid_utf8(destination)) return "the destination is not valid UTF-8";
  if (has_control_character(destination)) return "the destination has a control character";
  return {};
}

}  // namespace

Path append_destination(std::string_view base, std::string_view destination) {
  Path path;
  path.text = base;
  if (destination.empty()) return path;
  path.error = destination_defect(destination);
  if (!path.error.empty()) return path;
  if (path.text.ends_with('/')) path.text.pop_back();
  for (std::size_t at = 0; at <= destination.size();) {
    const std::size_t slash = std::min(destination.find('/', at), destination.size());
    const std::string_view segment = destination.substr(at, slash - at);
    if (const std::string why = segment_defect(segment); !why.empty()) {
      path.error = fmt::format("the destination has {}", why);
      return path;
    }
    path.text += '/';
    path.text += percent_encode_segment(segment);
    at = slash + 1;
  }
  return path;
}

}  // namespace outbox
