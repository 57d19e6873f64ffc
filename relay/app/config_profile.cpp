#include <array>
#include <utility>

#include "relay/app/config_layers.h"

namespace outbox {
namespace {

constexpr std::string_view kAdr087 = "adr-087";

// The record's figures, and where it leaves one out, those of its public source.
constexpr std::array<std::pair<std::string_view, std::string_view>, 13> kAdr087Keys = {{
    {"breaker.whileOpen", "charge"},
    {"breaker.consecutiveFailures", "0"},
    {"breaker.breakJitter", "0"},
    {"retry.outageGuard", "false"},
    {"retry.redeliveryIntervals", "[]"},
    {"retry.maxAttempts", "5"},
    {"retry.baseDelay", "10s"},
    {"retry.factor", "2"},
    {"retry.maxDelay", "300s"},
    {"retry.jitter", "proportional"},
    {"relay.batchSize", "50"},
    {"relay.pollInterval", "2s"},
    {"relay.leaseTerm", "300s"},
}};

}  // namespace

ConfigLayer profile_layer(const std::string& profile) {
  ConfigLayer layer;
  if (profile != kAdr087) return layer;
  const Origin origin{Origin::Kind::profile, profile};
  std::vector<Problem> none;
  for (const auto& [key, value] : kAdr087Keys) {
    const std::string path(key);
    layer.insert_or_assign(path, parse_yaml(std::string(value), path, origin, nullptr, none));
  }
  return layer;
}

void apply_profile(const std::string& profile, Settings& settings) {
  if (profile != kAdr087) return;
  settings.relay.hold_destinations = false;
  settings.relay.charge_every_failure = true;
  settings.relay.retry_share = 1;
  settings.relay.ramp_after_open = false;
}

}  // namespace outbox
