#include "relay/app/config_keys.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

namespace outbox {
namespace {

using Kind = ValueKind;

void take(Duration& target, const ConfigValue& value) { target = value.duration; }
void take(double& target, const ConfigValue& value) { target = value.number; }
void take(bool& target, const ConfigValue& value) { target = value.truth; }
void take(std::string& target, const ConfigValue& value) { target = value.text; }
void take(std::size_t& target, const ConfigValue& value) { target = value.count; }
void take(std::uint32_t& target, const ConfigValue& value) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
  target = static_cast<std::uint32_t>(std::min(value.count, kMost));
}
void take(std::vector<std::string>& target, const ConfigValue& value) { target = value.texts; }
void take(std::vector<Duration>& target, const ConfigValue& value) { target = value.durations; }
void take(std::vector<Route>& target, const ConfigValue& value) { target = value.routes; }
void take(std::map<std::string, std::string>& target, const ConfigValue& value) {
  target = value.map;
}
void take(HostPort& target, const ConfigValue& value) { target = value.address; }
void take(Ordering& target, const ConfigValue& value) {
  target = value.text == "key" ? Ordering::key : Ordering::none;
}
void take(WhileOpen& target, const ConfigValue& value) {
  target = value.text == "charge" ? WhileOpen::charge : WhileOpen::suspend;
}
void take(LogFormat& target, const ConfigValue& value) {
  target = value.text == "text" ? LogFormat::text : LogFormat::json;
}
void take(LogLevel& target, const ConfigValue& value) {
  target = value.text == "debug"   ? LogLevel::debug
           : value.text == "warn"  ? LogLevel::warn
           : value.text == "error" ? LogLevel::error
                                   : LogLevel::info;
}
void take(Jitter& target, const ConfigValue& value) {
  target = value.text == "equal"          ? Jitter::equal
           : value.text == "decorrelated" ? Jitter::decorrelated
           : value.text == "proportional" ? Jitter::proportional
           : value.text == "none"         ? Jitter::none
                                          : Jitter::full;
}

void take(AttemptsKept& target, const ConfigValue& value) {
  target = value.text == "none"  ? AttemptsKept::none
           : value.text == "all" ? AttemptsKept::all
                                 : AttemptsKept::failures;
}
void take(std::optional<Duration>& target, const ConfigValue& value) {
  target = value.text == "never" ? std::nullopt : std::optional<Duration>(value.duration);
}

// Puts a value where a path of members leads.
template <auto... Members>
void to(Settings& settings, const ConfigValue& value) {
  take((settings.*....*Members), value);
}

void to_dead_blocks_key(Settings& settings, const ConfigValue& value) {
  settings.relay.dead_blocks_key = value.text == "block";
}

constexpr auto kStore = &Settings::store;
constexpr auto kPublisher = &Settings::publisher;
constexpr auto kTls = &PublisherSettings::tls;
constexpr auto kRelay = &Settings::relay;
constexpr auto kRetry = &RelayOptions::retry;
constexpr auto kBreaker = &RelayOptions::breaker;
constexpr auto kRetention = &Settings::retention;
constexpr auto kMetrics = &Settings::metrics;
constexpr auto kLog = &Settings::log;

constexpr std::string_view kNoAdmin = "this version has no admin API; nothing listens there";

constexpr auto kKeys = std::to_array<ConfigKey>({
    {"store.url", Kind::url, "", "", "", "", to<kStore, &StoreSettings::url>},
    {"store.table", Kind::text, "outbox_messages", "", "", "", to<kStore, &StoreSettings::table>},
    {"store.preset", Kind::text, "relay", "", "", "", to<kStore, &StoreSettings::preset>},
    {"store.columns", Kind::text_map, "{}", "", "", "", to<kStore, &StoreSettings::columns>},
    {"store.states", Kind::text_map, "{}", "", "", "", to<kStore, &StoreSettings::states>},
    {"store.times", Kind::choice, "", "", "", "|iso|sql|seconds|milliseconds|ticks",
     to<kStore, &StoreSettings::times>},
    {"store.createRelayTables", Kind::boolean, "true", "", "", "",
     to<kStore, &StoreSettings::create_relay_tables>},
    {"store.commandTimeout", Kind::duration, "10s", "1ms", "10m", "",
     to<kStore, &StoreSettings::command_timeout>},
    {"store.walLimit", Kind::size, "64MiB", "4KiB", "1TiB", "",
     to<kStore, &StoreSettings::wal_limit>},

    {"brokers.*.url", Kind::url, "", "", "", "", to<kPublisher, &PublisherSettings::url>},
    {"brokers.*.envelope", Kind::choice, "cloudevents-binary", "", "",
     "cloudevents-binary|raw|cloudevents-structured|masstransit",
     to<kPublisher, &PublisherSettings::envelope>},
    {"brokers.*.source", Kind::text, "", "", "", "", to<kPublisher, &PublisherSettings::source>},
    {"brokers.*.publishTimeout", Kind::duration, "5s", "10ms", "10m", "",
     to<kPublisher, &PublisherSettings::publish_timeout>},
    {"brokers.*.connections", Kind::count, "4", "1", "256", "",
     to<kPublisher, &PublisherSettings::connections>},
    {"brokers.*.username", Kind::text, "", "", "", "",
     to<kPublisher, &PublisherSettings::username>},
    {"brokers.*.passwordFile", Kind::text, "", "", "", "",
     to<kPublisher, &PublisherSettings::password_file>},
    {"brokers.*.bearerTokenFile", Kind::text, "", "", "", "",
     to<kPublisher, &PublisherSettings::bearer_token_file>},
    {"brokers.*.signingKeyFile", Kind::text, "", "", "", "",
     to<kPublisher, &PublisherSettings::signing_key_file>},
    {"brokers.*.headers", Kind::secrets, "{}", "", "", "",
     to<kPublisher, &PublisherSettings::headers>},
    {"brokers.*.tls.caFile", Kind::text, "", "", "", "",
     to<kPublisher, kTls, &TlsSettings::ca_file>},
    {"brokers.*.tls.certFile", Kind::text, "", "", "", "",
     to<kPublisher, kTls, &TlsSettings::cert_file>},
    {"brokers.*.tls.keyFile", Kind::text, "", "", "", "",
     to<kPublisher, kTls, &TlsSettings::key_file>},
    {"brokers.*.tls.serverName", Kind::text, "", "", "", "",
     to<kPublisher, kTls, &TlsSettings::server_name>},

    {"routes", Kind::routes, "[]", "", "", "", to<kRelay, &RelayOptions::routes>},

    {"relay.batchSize", Kind::count, "100", "1", "10000", "",
     to<kRelay, &RelayOptions::batch_size>},
    {"relay.maxInFlight", Kind::count, "256", "1", "100000", "",
     to<kRelay, &RelayOptions::in_flight_max>},
    {"relay.maxInFlightBytes", Kind::size, "16MiB", "1KiB", "64GiB", "",
     to<kRelay, &RelayOptions::in_flight_bytes_max>},
    {"relay.maxPayload", Kind::size, "4MiB", "1B", "1GiB", "",
     to<kRelay, &RelayOptions::payload_max>},
    {"relay.leaseTerm", Kind::duration, "30s", "30ms", "24h", "",
     to<kRelay, &RelayOptions::lease_term>},
    {"relay.pollInterval", Kind::duration, "1s", "1ms", "1h", "",
     to<kRelay, &RelayOptions::poll_interval>},
    {"relay.ordering", Kind::choice, "none", "", "", "none|key",
     to<kRelay, &RelayOptions::ordering>},
    {"relay.onDeadKey", Kind::choice, "block", "", "", "block|skip", to_dead_blocks_key},
    {"relay.onStop", Kind::choice, "", "", "", "|drain|finish", to<&Settings::on_stop>},
    {"relay.drainTimeout", Kind::duration, "20s", "0s", "1h", "",
     to<&Settings::loop, &LoopOptions::drain_timeout>},
    {"relay.stallTimeout", Kind::duration, "2m", "1s", "1h", "", to<&Settings::stall_timeout>},

    {"retry.maxAttempts", Kind::count, "6", "1", "1000", "",
     to<kRelay, kRetry, &RetryOptions::max_attempts>},
    {"retry.baseDelay", Kind::duration, "1s", "1ms", "7d", "",
     to<kRelay, kRetry, &RetryOptions::base_delay>},
    {"retry.factor", Kind::number, "2", "1", "100", "", to<kRelay, kRetry, &RetryOptions::factor>},
    {"retry.maxDelay", Kind::duration, "5m", "1ms", "30d", "",
     to<kRelay, kRetry, &RetryOptions::max_delay>},
    {"retry.jitter", Kind::choice, "full", "", "", "full|equal|decorrelated|proportional|none",
     to<kRelay, kRetry, &RetryOptions::jitter>},
    {"retry.redeliveryIntervals", Kind::durations, "[60s, 10m, 1h]", "1ms", "30d", "",
     to<kRelay, kRetry, &RetryOptions::redelivery_intervals>},
    {"retry.outageGuard", Kind::boolean, "true", "", "", "",
     to<kRelay, kRetry, &RetryOptions::outage_guard>},

    {"breaker.failureRatio", Kind::number, "0.5", "0", "1", "",
     to<kRelay, kBreaker, &BreakerOptions::failure_ratio>},
    {"breaker.minimumThroughput", Kind::count, "10", "1", "1000000", "",
     to<kRelay, kBreaker, &BreakerOptions::minimum_throughput>},
    {"breaker.samplingDuration", Kind::duration, "30s", "10ms", "1h", "",
     to<kRelay, kBreaker, &BreakerOptions::sampling_duration>},
    {"breaker.breakDuration", Kind::duration, "15s", "10ms", "1h", "",
     to<kRelay, kBreaker, &BreakerOptions::break_duration>},
    {"breaker.breakDurationMax", Kind::duration, "5m", "10ms", "24h", "",
     to<kRelay, kBreaker, &BreakerOptions::break_max>},
    {"breaker.breakGrowth", Kind::number, "1", "1", "10", "",
     to<kRelay, kBreaker, &BreakerOptions::break_growth>},
    {"breaker.breakJitter", Kind::number, "0.2", "0", "0.9", "",
     to<kRelay, kBreaker, &BreakerOptions::break_jitter>},
    {"breaker.consecutiveFailures", Kind::count, "5", "0", "1000000", "",
     to<kRelay, kBreaker, &BreakerOptions::consecutive_failures>},
    {"breaker.probes", Kind::count, "1", "1", "100", "",
     to<kRelay, kBreaker, &BreakerOptions::probes>},
    {"breaker.whileOpen", Kind::choice, "suspend", "", "", "suspend|charge",
     to<kRelay, kBreaker, &BreakerOptions::while_open>},

    {"retention.processed", Kind::retention, "7d", "", "", "",
     to<kRetention, &RetentionOptions::processed>},
    {"retention.deadLettered", Kind::retention, "never", "", "", "",
     to<kRetention, &RetentionOptions::dead_lettered>},
    {"retention.attempts", Kind::retention, "30d", "", "", "",
     to<kRetention, &RetentionOptions::attempts>},
    {"retention.interval", Kind::duration, "1h", "1s", "30d", "",
     to<kRetention, &RetentionOptions::interval>},
    {"retention.chunk", Kind::count, "500", "1", "100000", "",
     to<kRetention, &RetentionOptions::chunk>},
    {"audit.attempts", Kind::choice, "failures", "", "", "none|failures|all",
     to<kStore, &StoreSettings::attempts_kept>},

    {"http.listen", Kind::address, "0.0.0.0:9711", "", "", "", to<&Settings::listen>},
    {"admin.listen", Kind::address, "127.0.0.1:9712", "", "", "", nullptr, Unfinished::warn,
     kNoAdmin},
    {"admin.tokenFile", Kind::text, "", "", "", "", nullptr, Unfinished::warn, kNoAdmin},
    {"admin.readTokenFile", Kind::text, "", "", "", "", nullptr, Unfinished::warn, kNoAdmin},
    {"metrics.eventTypes", Kind::texts, "[]", "", "", "",
     to<kMetrics, &MetricsSettings::event_types>},
    {"metrics.eventTypeLimit", Kind::count, "20", "0", "1000", "",
     to<kMetrics, &MetricsSettings::event_type_limit>},
    {"metrics.sampleInterval", Kind::duration, "15s", "100ms", "1h", "",
     to<kMetrics, &MetricsSettings::sample_interval>},
    {"log.format", Kind::choice, "json", "", "", "json|text", to<kLog, &LogSettings::format>},
    {"log.level", Kind::choice, "info", "", "", "debug|info|warn|error",
     to<kLog, &LogSettings::level>},
    {"profile", Kind::choice, "", "", "", "|adr-087", to<&Settings::profile>},
});

// One segment against one of a pattern: `*` is any name.
bool segments_match(const std::vector<std::string>& pattern, const std::vector<std::string>& path) {
  for (std::size_t index = 0; index < path.size(); ++index) {
    if (pattern[index] != "*" && pattern[index] != path[index]) return false;
  }
  return true;
}

}  // namespace

std::span<const ConfigKey> config_keys() { return kKeys; }

std::vector<std::string> split(std::string_view text, std::string_view separator) {
  std::vector<std::string> parts;
  while (true) {
    const auto end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + separator.size());
  }
}

const ConfigKey* find_key(std::string_view path) {
  const auto segments = split(path, ".");
  for (const auto& key : kKeys) {
    const auto pattern = split(key.path, ".");
    if (pattern.size() == segments.size() && segments_match(pattern, segments)) return &key;
  }
  return nullptr;
}

bool is_section(std::string_view path) {
  if (path.empty()) return true;
  const auto segments = split(path, ".");
  return std::ranges::any_of(kKeys, [&](const ConfigKey& key) {
    const auto pattern = split(key.path, ".");
    return pattern.size() > segments.size() && segments_match(pattern, segments);
  });
}

std::vector<std::string> names_below(std::string_view section) {
  const auto segments = section.empty() ? std::vector<std::string>{} : split(section, ".");
  std::vector<std::string> names;
  for (const auto& key : kKeys) {
    const auto pattern = split(key.path, ".");
    if (pattern.size() <= segments.size() || !segments_match(pattern, segments)) continue;
    const auto& name = pattern[segments.size()];
    if (name != "*" && std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

std::string concrete_path(std::string_view pattern, std::string_view broker) {
  std::string result(pattern);
  const auto star = result.find('*');
  if (star != std::string::npos) result.replace(star, 1, broker);
  return result;
}

std::string variable_of(std::string_view path) {
  std::string result = "OUTBOX_RELAY";
  for (const auto& segment : split(path, ".")) {
    result += "__";
    for (const char letter : segment) {
      const bool lower = letter >= 'a' && letter <= 'z';
      result += lower ? static_cast<char>(letter - 'a' + 'A') : letter;
    }
  }
  return result;
}

}  // namespace outbox
