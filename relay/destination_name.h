// How people are told of a destination.
#pragma once

#include <string>
#include <string_view>

namespace outbox {

// Nothing rendered: what the broker's URL says by itself.
inline std::string destination_name(std::string_view destination) {
  return destination.empty() ? "(broker's own)" : std::string(destination);
}

}  // namespace outbox
