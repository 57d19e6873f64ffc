// What is known about the destinations of one broker (behaviour: held destinations, outage guard).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "relay/clock.h"
#include "relay/observer.h"

namespace outbox {
class Destinations;
}  // namespace outbox
