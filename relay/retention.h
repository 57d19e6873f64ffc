// How long rows stay that are done with.
#pragma once

#include <cstddef>
#include <optional>

#include "relay/clock.h"

namespace outbox {

// Nothing means for ever; zero means gone with the next clean-up.
struct RetentionOptions {
  std::optional<Duration> processed = std::chrono::hours{7 * 24};
  std::optional<Duration> dead_lettered;
  std::optional<Duration> attempts = std::chrono::hours{30 * 24};  // the record of single attempts
  Duration interval = std::chrono::hours{1};                       // from one clean-up to the next
  std::size_t chunk = 500;                                         // rows in one transaction
};

}  // namespace outbox
