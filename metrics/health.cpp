#include "metrics/health.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "metrics/wall_clock.h"
#include "relay/destination_name.h"

namespace outbox {

namespace {

constexpr std::size_t kDestinationsShownMax = 20;

bool is_stalled(const Health& health) {
  return !health.finished && health.loop_age > health.stall_timeout;
}

ProbeAnswer stalled(const Health& health) {
  return {false, "stalled",
          fmt::format("The relay's loop has not come round for {:.0f} s, more than "
                      "relay.stallTimeout ({:.0f} s) allows; restart the relay.",
                      seconds_of(health.loop_age), seconds_of(health.stall_timeout))};
}

nlohmann::json held_destinations_of(const Health& health) {
  nlohmann::json shown = nlohmann::json::array();
  for (const DestinationChange& held : health.held_destinations) {
    if (shown.size() == kDestinationsShownMax) break;
    shown.push_back({{"destination", destination_name(held.destination)}, {"reason", held.reason}});
  }
  return shown;
}

}  // namespace

ProbeAnswer liveness_of(const Health& health) {
  if (is_stalled(health)) return stalled(health);
  return {true, "alive", ""};
}

ProbeAnswer readiness_of(const Health& health) {
  if (health.stopping || health.finished) {
    return {false, "draining", "The relay is shutting down and sends what is left."};
  }
  if (is_stalled(health)) return stalled(health);
  if (!health.started) {
    return {false, "starting", "The relay has not yet had a turn at the database."};
  }
  if (!health.store_usable) {
    return {false, "store_unusable",
            health.store_error.empty() ? "The outbox can't be used." : health.store_error};
  }
  return {true, "ready", ""};
}

ProbeAnswer startup_of(const Health& health) {
  if (!health.set_up) return {false, "starting", "The program is still being set up."};
  return {true, "started", ""};
}

std::string to_json(const ProbeAnswer& answer, const Health& health) {
  nlohmann::ordered_json body;
  body["state"] = answer.state;
  body["reason"] = answer.reason;
  body["storeUsable"] = health.store_usable;
  body["storeError"] = health.store_error;
  body["circuit"] = name_of(health.circuit);
  if (health.circuit == CircuitState::open) {
    body["nextProbeSeconds"] = std::max(0.0, seconds_of(health.next_probe));
  } else {
    body["nextProbeSeconds"] = nullptr;
  }
  body["paused"] = health.paused;
  body["stopping"] = health.stopping;
  body["heldDestinationCount"] = health.held_destinations.size();
  body["heldDestinations"] = held_destinations_of(health);
  body["loopAgeSeconds"] = std::max(0.0, seconds_of(health.loop_age));
  body["stallTimeoutSeconds"] = seconds_of(health.stall_timeout);
  // An error text may hold anything, and an answer with a replaced byte beats none.
  return body.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace outbox
