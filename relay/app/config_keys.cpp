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
    {"store.url", Kind::url, "", "", "", "", to<kStore, &StoreSettings::url>,
     "Where the outbox is: sqlite:///absolute/path, sqlite:relative/path or "
     "postgres://user@host/database."},
    {"store.passwordFile", Kind::text, "", "", "", "", to<kStore, &StoreSettings::password_file>,
     "Servers: a file that holds the password; read at each connect."},
    {"store.table", Kind::text, "outbox_messages", "", "", "", to<kStore, &StoreSettings::table>,
     "The outbox table."},
    // A text, as the database's adapter knows its presets; these are for completion.
    {"store.preset", Kind::text, "relay", "", "", "relay|dotnet|debezium|cap|spring-modulith",
     to<kStore, &StoreSettings::preset>, "Names the mapping of columns and states."},
    {"store.columns", Kind::text_map, "{}", "", "",
     "sequence|id|eventType|orderingKey|destination|contentType|headers|traceparent|occurredAt|"
     "notBefore|status|retryCount|nextAttempt|lastError|processedAt|deadLetterReason|payload",
     to<kStore, &StoreSettings::columns>, "Columns that differ from the preset's."},
    {"store.states", Kind::text_map, "{}", "", "", "pending|failed|processed|deadLettered",
     to<kStore, &StoreSettings::states>, "State values that differ from the preset's."},
    {"store.guids", Kind::choice, "", "", "", "|dotnet|plain", to<kStore, &StoreSettings::guids>,
     "In which order ids of 16 bytes are read. Empty: as the preset says."},
    {"store.times", Kind::choice, "", "", "", "|iso|sql|seconds|milliseconds|ticks",
     to<kStore, &StoreSettings::times>, "How the table writes times; empty: as the preset says."},
    {"store.createRelayTables", Kind::boolean, "true", "", "", "",
     to<kStore, &StoreSettings::create_relay_tables>,
     "Whether the relay creates its own tables beside the outbox."},
    {"store.commandTimeout", Kind::duration, "10s", "1ms", "10m", "",
     to<kStore, &StoreSettings::command_timeout>,
     "How long the database may take for one command."},
    {"store.walLimit", Kind::size, "64MiB", "4KiB", "1TiB", "",
     to<kStore, &StoreSettings::wal_limit>,
     "The size of the write-ahead log above which the relay checkpoints it."},

    {"brokers.*.url", Kind::url, "", "", "", "", to<kPublisher, &PublisherSettings::url>,
     "Where events go."},
    {"brokers.*.envelope", Kind::choice, "cloudevents-binary", "", "",
     "cloudevents-binary|raw|cloudevents-structured|masstransit",
     to<kPublisher, &PublisherSettings::envelope>, "What is added to the payload."},
    {"brokers.*.source", Kind::text, "", "", "", "", to<kPublisher, &PublisherSettings::source>,
     "The CloudEvents source; empty: /outbox-relay/<table>."},
    {"brokers.*.publishTimeout", Kind::duration, "5s", "10ms", "10m", "",
     to<kPublisher, &PublisherSettings::publish_timeout>, "The hard deadline of one attempt."},
    {"brokers.*.connections", Kind::count, "4", "1", "256", "",
     to<kPublisher, &PublisherSettings::connections>,
     "HTTP: connections, and so requests, at once."},
    {"brokers.*.username", Kind::text, "", "", "", "", to<kPublisher, &PublisherSettings::username>,
     "For basic authentication, with passwordFile."},
    {"brokers.*.passwordFile", Kind::text, "", "", "", "",
     to<kPublisher, &PublisherSettings::password_file>, "A file that holds the password."},
    {"brokers.*.bearerTokenFile", Kind::text, "", "", "", "",
     to<kPublisher, &PublisherSettings::bearer_token_file>, "A file that holds a bearer token."},
    {"brokers.*.signingKeyFile", Kind::text, "", "", "", "",
     to<kPublisher, &PublisherSettings::signing_key_file>,
     "A file that holds the keys to sign messages with."},
    {"brokers.*.headers", Kind::secrets, "{}", "", "", "",
     to<kPublisher, &PublisherSettings::headers>,
     "Headers for every request; only their names are ever shown."},
    {"brokers.*.headerFiles", Kind::text_map, "{}", "", "", "",
     to<kPublisher, &PublisherSettings::header_files>,
     "Headers whose values stand in files: a name, and the file's path."},
    {"brokers.*.exchange", Kind::text, "", "", "", "", to<kPublisher, &PublisherSettings::exchange>,
     "AMQP: the exchange for destinations that name none; empty: the default exchange."},
    {"brokers.*.unroutableExchange", Kind::text, "", "", "", "",
     to<kPublisher, &PublisherSettings::unroutable_exchange>,
     "AMQP: the exchange that takes what no queue is bound for; empty: such rows wait."},
    {"brokers.*.tls.caFile", Kind::text, "", "", "", "",
     to<kPublisher, kTls, &TlsSettings::ca_file>, "Certificates to trust instead of the system's."},
    {"brokers.*.tls.certFile", Kind::text, "", "", "", "",
     to<kPublisher, kTls, &TlsSettings::cert_file>, "Our own certificate, for mutual TLS."},
    {"brokers.*.tls.keyFile", Kind::text, "", "", "", "",
     to<kPublisher, kTls, &TlsSettings::key_file>, "The key of that certificate."},
    {"brokers.*.tls.serverName", Kind::text, "", "", "", "",
     to<kPublisher, kTls, &TlsSettings::server_name>,
     "The name to expect in the broker's certificate; empty: the URL's host."},

    {"routes", Kind::routes, "[]", "", "", "", to<kRelay, &RelayOptions::routes>,
     "Which rows go where; the first match wins."},

    {"relay.batchSize", Kind::count, "100", "1", "10000", "", to<kRelay, &RelayOptions::batch_size>,
     "Rows leased in one transaction; at most maxInFlight."},
    {"relay.maxInFlight", Kind::count, "256", "1", "100000", "",
     to<kRelay, &RelayOptions::in_flight_max>, "Rows leased at once, travelling or about to."},
    {"relay.maxInFlightBytes", Kind::size, "16MiB", "1KiB", "64GiB", "",
     to<kRelay, &RelayOptions::in_flight_bytes_max>, "The same in bytes of payload."},
    {"relay.maxPayload", Kind::size, "4MiB", "1B", "1GiB", "",
     to<kRelay, &RelayOptions::payload_max>,
     "A larger payload is not loaded; its row becomes a dead letter."},
    {"relay.leaseTerm", Kind::duration, "30s", "30ms", "24h", "",
     to<kRelay, &RelayOptions::lease_term>, "How long a lease lasts; at least 3 x publishTimeout."},
    {"relay.pollInterval", Kind::duration, "1s", "1ms", "1h", "",
     to<kRelay, &RelayOptions::poll_interval>,
     "How often to look for new rows when nothing rings."},
    {"relay.ordering", Kind::choice, "none", "", "", "none|key",
     to<kRelay, &RelayOptions::ordering>, "key: rows of one ordering key travel one at a time."},
    {"relay.onDeadKey", Kind::choice, "block", "", "", "block|skip", to_dead_blocks_key,
     "With ordering by key: whether a dead letter blocks the rows behind it."},
    {"relay.onStop", Kind::choice, "", "", "", "|drain|finish", to<&Settings::on_stop>,
     "What to do after SIGTERM; empty: drain with SQLite."},
    {"relay.drainTimeout", Kind::duration, "20s", "0s", "1h", "",
     to<&Settings::loop, &LoopOptions::drain_timeout>, "How long that may take."},
    {"relay.stallTimeout", Kind::duration, "2m", "1s", "1h", "", to<&Settings::stall_timeout>,
     "How long the relay's loop may stand still before /livez fails."},

    {"retry.maxAttempts", Kind::count, "6", "1", "1000", "",
     to<kRelay, kRetry, &RetryOptions::max_attempts>,
     "Attempts of the first level, the first one included."},
    {"retry.baseDelay", Kind::duration, "1s", "1ms", "7d", "",
     to<kRelay, kRetry, &RetryOptions::base_delay>, "The wait after the first failure."},
    {"retry.factor", Kind::number, "2", "1", "100", "", to<kRelay, kRetry, &RetryOptions::factor>,
     "Each further wait is longer by this factor."},
    {"retry.maxDelay", Kind::duration, "5m", "1ms", "30d", "",
     to<kRelay, kRetry, &RetryOptions::max_delay>, "The longest wait of the first level."},
    {"retry.jitter", Kind::choice, "full", "", "", "full|equal|decorrelated|proportional|none",
     to<kRelay, kRetry, &RetryOptions::jitter>, "How waits are spread."},
    {"retry.redeliveryIntervals", Kind::durations, "[60s, 10m, 1h]", "1ms", "30d", "",
     to<kRelay, kRetry, &RetryOptions::redelivery_intervals>,
     "One further attempt after each; ascending; empty: none."},
    {"retry.outageGuard", Kind::boolean, "true", "", "", "",
     to<kRelay, kRetry, &RetryOptions::outage_guard>,
     "Whether failures that an outage explains are kept from counting toward death."},

    {"breaker.failureRatio", Kind::number, "0.5", "0", "1", "",
     to<kRelay, kBreaker, &BreakerOptions::failure_ratio>,
     "The share of failures in the window that opens the circuit."},
    {"breaker.minimumThroughput", Kind::count, "10", "1", "1000000", "",
     to<kRelay, kBreaker, &BreakerOptions::minimum_throughput>,
     "Outcomes that the window must hold before the ratio means anything."},
    {"breaker.samplingDuration", Kind::duration, "30s", "10ms", "1h", "",
     to<kRelay, kBreaker, &BreakerOptions::sampling_duration>, "The length of the window."},
    {"breaker.breakDuration", Kind::duration, "15s", "10ms", "1h", "",
     to<kRelay, kBreaker, &BreakerOptions::break_duration>,
     "How long the circuit stays open before a probe."},
    {"breaker.breakDurationMax", Kind::duration, "5m", "10ms", "24h", "",
     to<kRelay, kBreaker, &BreakerOptions::break_max>, "The longest break, when breaks grow."},
    {"breaker.breakGrowth", Kind::number, "1", "1", "10", "",
     to<kRelay, kBreaker, &BreakerOptions::break_growth>,
     "Each break in a row is longer by this factor."},
    {"breaker.breakJitter", Kind::number, "0.2", "0", "0.9", "",
     to<kRelay, kBreaker, &BreakerOptions::break_jitter>,
     "Breaks are longer or shorter by up to this share."},
    {"breaker.consecutiveFailures", Kind::count, "5", "0", "1000000", "",
     to<kRelay, kBreaker, &BreakerOptions::consecutive_failures>,
     "Transport failures in a row that open the circuit; 0: none do."},
    {"breaker.probes", Kind::count, "1", "1", "100", "",
     to<kRelay, kBreaker, &BreakerOptions::probes>,
     "Probes that must all succeed to close the circuit."},
    {"breaker.whileOpen", Kind::choice, "suspend", "", "", "suspend|charge",
     to<kRelay, kBreaker, &BreakerOptions::while_open>,
     "Whether rows are leased and charged while the circuit is open."},

    {"retention.processed", Kind::retention, "7d", "", "", "",
     to<kRetention, &RetentionOptions::processed>,
     "How long delivered rows stay; for ever in a foreign table unless set."},
    {"retention.deadLettered", Kind::retention, "never", "", "", "",
     to<kRetention, &RetentionOptions::dead_lettered>, "How long dead letters stay."},
    {"retention.attempts", Kind::retention, "30d", "", "", "",
     to<kRetention, &RetentionOptions::attempts>, "How long the record of attempts stays."},
    {"retention.interval", Kind::duration, "1h", "1s", "30d", "",
     to<kRetention, &RetentionOptions::interval>, "How often to clean up."},
    {"retention.chunk", Kind::count, "500", "1", "100000", "",
     to<kRetention, &RetentionOptions::chunk>, "Rows removed in one transaction."},
    {"audit.attempts", Kind::choice, "failures", "", "", "none|failures|all",
     to<kStore, &StoreSettings::attempts_kept>,
     "Which attempts are recorded in a table beside the outbox."},

    {"http.listen", Kind::address, "0.0.0.0:9711", "", "", "", to<&Settings::listen>,
     "Where /metrics, /livez, /readyz and /startupz are served."},
    {"admin.listen", Kind::address, "127.0.0.1:9712", "", "", "", nullptr,
     "Where the admin API would listen.", Unfinished::warn, kNoAdmin},
    {"admin.tokenFile", Kind::text, "", "", "", "", nullptr, "A file that holds its token.",
     Unfinished::warn, kNoAdmin},
    {"admin.readTokenFile", Kind::text, "", "", "", "", nullptr,
     "A file that holds its token for reading.", Unfinished::warn, kNoAdmin},
    {"metrics.eventTypes", Kind::texts, "[]", "", "", "",
     to<kMetrics, &MetricsSettings::event_types>, "Event types whose series exist from the start."},
    {"metrics.eventTypeLimit", Kind::count, "20", "0", "1000", "",
     to<kMetrics, &MetricsSettings::event_type_limit>,
     "Further event types that get series of their own."},
    {"metrics.sampleInterval", Kind::duration, "15s", "100ms", "1h", "",
     to<kMetrics, &MetricsSettings::sample_interval>, "How often the backlog is counted."},
    {"log.format", Kind::choice, "json", "", "", "json|text", to<kLog, &LogSettings::format>,
     "One JSON object a line, or text for people."},
    {"log.level", Kind::choice, "info", "", "", "debug|info|warn|error",
     to<kLog, &LogSettings::level>, "The least level that is logged."},
    {"profile", Kind::choice, "", "", "", "|adr-087", to<&Settings::profile>,
     "Sets a group of keys at once; keys that are set themselves win."},
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
