// The configuration as a whole: defaults, precedence, variables, profiles.
#include <doctest/doctest.h>

#include <filesystem>

#include "config_fixture.h"
#include "relay/app/config_keys.h"
#include "relay/app/config_value.h"

namespace outbox {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

std::string problems_of(const Config& config) { return describe(config.problems); }

TEST_CASE("a file with a database and a broker is enough, and the rest has its default") {
  const auto config = config_of(kMinimal);
  REQUIRE_MESSAGE(config.usable(), problems_of(config));
  CHECK(config.warnings.empty());
  const auto& settings = config.settings;
  CHECK(settings.store.url == "sqlite:///data/app.db");
  CHECK(settings.publisher.url == "null:");
  CHECK(settings.publisher.source == "/outbox-relay/outbox_messages");
  CHECK(settings.broker == "main");
  CHECK(settings.relay.drain_on_stop);
}

// The defaults of the table are what the core has when nobody configures it.
TEST_CASE("the defaults of the table are those of the core") {
  const auto settings = config_of(kMinimal).settings;
  const RelayOptions core;
  CHECK(settings.relay.batch_size == core.batch_size);
  CHECK(settings.relay.in_flight_max == core.in_flight_max);
  CHECK(settings.relay.in_flight_bytes_max == core.in_flight_bytes_max);
  CHECK(settings.relay.payload_max == core.payload_max);
  CHECK(settings.relay.lease_term == core.lease_term);
  CHECK(settings.relay.poll_interval == core.poll_interval);
  CHECK(settings.relay.publish_timeout == core.publish_timeout);
  CHECK(settings.relay.hold_destinations == core.hold_destinations);
  CHECK(settings.relay.retry_share == core.retry_share);
  CHECK(settings.relay.retry.max_attempts == core.retry.max_attempts);
  CHECK(settings.relay.retry.base_delay == core.retry.base_delay);
  CHECK(settings.relay.retry.factor == core.retry.factor);
  CHECK(settings.relay.retry.max_delay == core.retry.max_delay);
  CHECK(settings.relay.retry.jitter == core.retry.jitter);
  CHECK(settings.relay.retry.redelivery_intervals == core.retry.redelivery_intervals);
  CHECK(settings.relay.retry.outage_guard == core.retry.outage_guard);
  CHECK(settings.relay.breaker.failure_ratio == core.breaker.failure_ratio);
  CHECK(settings.relay.breaker.minimum_throughput == core.breaker.minimum_throughput);
  CHECK(settings.relay.breaker.sampling_duration == core.breaker.sampling_duration);
  CHECK(settings.relay.breaker.break_duration == core.breaker.break_duration);
  CHECK(settings.relay.breaker.break_jitter == core.breaker.break_jitter);
  CHECK(settings.relay.breaker.break_max == core.breaker.break_max);
  CHECK(settings.relay.breaker.break_growth == core.breaker.break_growth);
  CHECK(settings.relay.breaker.consecutive_failures == core.breaker.consecutive_failures);
  CHECK(settings.relay.breaker.probes == core.breaker.probes);
  CHECK(settings.relay.breaker.probe_timeout == core.breaker.probe_timeout);
  CHECK(settings.relay.breaker.while_open == core.breaker.while_open);
  CHECK(settings.loop.drain_timeout == LoopOptions{}.drain_timeout);
  CHECK(settings.loop.settle_timeout == LoopOptions{}.settle_timeout);
  CHECK(settings.store.wal_limit == StoreSettings{}.wal_limit);
  CHECK(settings.publisher.connections == PublisherSettings{}.connections);
  CHECK(settings.publisher.queue_max == PublisherSettings{}.queue_max);
}

TEST_CASE("each default is a valid value that formats and reads back") {
  for (const auto& key : config_keys()) {
    const std::string path(key.path);
    CAPTURE(path);
    std::vector<Problem> problems;
    ConfigValue value;
    convert_value(key, path, default_node(key), value, problems);
    CHECK(problems.empty());
    const std::string text = format_value(key, value);
    ConfigKey again = key;
    again.fallback = text;
    ConfigValue reread;
    CHECK(convert_value(again, path, default_node(again), reread, problems));
    CHECK(format_value(key, reread) == text);
  }
}

TEST_CASE("each key's variable leads back to it") {
  for (const auto& key : config_keys()) {
    const std::string path = concrete_path(key.path, "main");
    std::vector<Problem> problems;
    const auto layer =
        environment_layer({{variable_of(path), std::string(key.fallback)}}, {"main"}, problems);
    CAPTURE(path);
    CHECK(problems.empty());
    CHECK(layer.contains(path));
  }
}

constexpr const char* kFull = R"(
store:
  url: sqlite:rel/app.db
  table: events
  createRelayTables: false
  commandTimeout: 3s
  walLimit: 8MiB
brokers:
  events:
    url: https://events.example.com/inbox
    envelope: raw
    source: /shop
    publishTimeout: 2s
    connections: 8
    username: app
    passwordFile: /run/secrets/password
    headers: { X-Tenant: "7" }
    tls: { caFile: /ca.pem, serverName: events }
routes:
  - match: { eventType: "asset.*" }
    broker: events
    destination: "{eventType}"
  - destination: rest
relay: { batchSize: 10, maxInFlight: 20, maxInFlightBytes: 1MiB, maxPayload: 64KiB, leaseTerm: 6s,
  pollInterval: 200ms, ordering: key, onDeadKey: skip, onStop: finish, drainTimeout: 5s, stallTimeout: 30s }
retry: { maxAttempts: 3, baseDelay: 2s, factor: 1.5, maxDelay: 1m, jitter: equal, redeliveryIntervals: [2m], outageGuard: false }
breaker: { failureRatio: 0.25, minimumThroughput: 5, samplingDuration: 10s, breakDuration: 3s,
  consecutiveFailures: 0, probes: 2, whileOpen: charge, breakGrowth: 2, breakDurationMax: 1m, breakJitter: 0 }
http: { listen: "[::1]:9000" }
metrics: { eventTypes: [a, b], eventTypeLimit: 5, sampleInterval: 1m }
log: { format: text, level: debug }
)";

TEST_CASE("every setting of a full file arrives") {
  const auto config = config_of(kFull);
  REQUIRE_MESSAGE(config.usable(), problems_of(config));
  const auto& settings = config.settings;
  CHECK(settings.store.url == "sqlite:rel/app.db");
  CHECK(settings.store.table == "events");
  CHECK_FALSE(settings.store.create_relay_tables);
  CHECK(settings.store.command_timeout == seconds{3});
  CHECK(settings.store.wal_limit == 8U << 20U);
  CHECK(settings.broker == "events");
  const auto& publisher = settings.publisher;
  CHECK(publisher.envelope == "raw");
  CHECK(publisher.source == "/shop");
  CHECK(publisher.publish_timeout == seconds{2});
  CHECK(publisher.connections == 8);
  CHECK(publisher.queue_max == 20);
  CHECK(publisher.username == "app");
  CHECK(publisher.password_file == "/run/secrets/password");
  CHECK(publisher.headers == std::map<std::string, std::string>{{"X-Tenant", "7"}});
  CHECK(publisher.tls.ca_file == "/ca.pem");
  CHECK(publisher.tls.server_name == "events");
  const auto& relay = settings.relay;
  REQUIRE(relay.routes.size() == 2);
  CHECK(relay.routes[0].event_type == "asset.*");
  CHECK(relay.routes[0].destination == "{eventType}");
  CHECK(relay.routes[1].event_type == "*");
  CHECK(relay.batch_size == 10);
  CHECK(relay.in_flight_bytes_max == 1U << 20U);
  CHECK(relay.payload_max == 64U << 10U);
  CHECK(relay.poll_interval == milliseconds{200});
  CHECK(relay.ordering == Ordering::key);
  CHECK_FALSE(relay.dead_blocks_key);
  CHECK_FALSE(relay.drain_on_stop);
  CHECK(settings.loop.drain_timeout == seconds{5});
  CHECK(settings.loop.settle_timeout > seconds{2});
  CHECK(settings.stall_timeout == seconds{30});
  CHECK(relay.retry.max_attempts == 3);
  CHECK(relay.retry.factor == 1.5);
  CHECK(relay.retry.jitter == Jitter::equal);
  CHECK(relay.retry.redelivery_intervals == std::vector<Duration>{minutes{2}});
  CHECK_FALSE(relay.retry.outage_guard);
  CHECK(relay.breaker.failure_ratio == 0.25);
  CHECK(relay.breaker.consecutive_failures == 0);
  CHECK(relay.breaker.probes == 2);
  CHECK(relay.breaker.while_open == WhileOpen::charge);
  CHECK(relay.breaker.break_growth == 2);
  CHECK(relay.breaker.break_max == minutes{1});
  CHECK(relay.breaker.break_jitter == 0);
  CHECK(settings.listen == HostPort{"::1", 9000});
  CHECK(settings.metrics.event_types == std::vector<std::string>{"a", "b"});
  CHECK(settings.metrics.event_type_limit == 5);
  CHECK(settings.metrics.sample_interval == minutes{1});
  CHECK(settings.log.format == LogFormat::text);
  CHECK(settings.log.level == LogLevel::debug);
}

TEST_CASE("flags cover the environment, which covers the file, the profile and the defaults") {
  const std::string file = std::string(kMinimal) +
                           "profile: adr-087\n"
                           "retry: { maxAttempts: 7 }\n"
                           "relay: { batchSize: 11, pollInterval: 3s }\n";
  const Environment environment = {{"OUTBOX_RELAY__RELAY__BATCHSIZE", "12"},
                                   {"OUTBOX_RELAY__RELAY__MAXINFLIGHT", "200"}};
  const auto config = config_of(file, {{"--set", "relay.maxInFlight", "300"}}, environment);
  REQUIRE_MESSAGE(config.usable(), problems_of(config));
  CHECK(config.settings.relay.in_flight_max == 300);             // the flag
  CHECK(config.settings.relay.batch_size == 12);                 // the environment
  CHECK(config.settings.relay.poll_interval == seconds{3});      // the file
  CHECK(config.settings.relay.retry.max_attempts == 7);          // the file, over the profile
  CHECK(config.settings.relay.retry.base_delay == seconds{10});  // the profile
  CHECK(config.settings.relay.payload_max == 4U << 20U);         // the default
  using Kind = Origin::Kind;
  CHECK(value_of(config, "relay.maxInFlight").origin.kind == Kind::flag);
  CHECK(value_of(config, "relay.batchSize").origin.kind == Kind::environment);
  CHECK(value_of(config, "relay.pollInterval").origin.kind == Kind::file);
  CHECK(value_of(config, "retry.baseDelay").origin.kind == Kind::profile);
  CHECK(value_of(config, "relay.maxPayload").origin.kind == Kind::fallback);
}

TEST_CASE("the profile adr-087 sets what the record says, wherever it is named") {
  for (const bool by_flag : {false, true}) {
    const auto config = by_flag ? config_of(kMinimal, {{"--set", "profile", "adr-087"}})
                                : config_of(kMinimal, {}, {{"OUTBOX_RELAY__PROFILE", "adr-087"}});
    REQUIRE_MESSAGE(config.usable(), problems_of(config));
    const auto& relay = config.settings.relay;
    CHECK(relay.breaker.while_open == WhileOpen::charge);
    CHECK(relay.breaker.consecutive_failures == 0);
    CHECK(relay.breaker.break_jitter == 0);
    CHECK_FALSE(relay.retry.outage_guard);
    CHECK(relay.retry.redelivery_intervals.empty());
    CHECK(relay.retry.max_attempts == 5);
    CHECK(relay.retry.base_delay == seconds{10});
    CHECK(relay.retry.factor == 2);
    CHECK(relay.retry.max_delay == seconds{300});
    CHECK(relay.retry.jitter == Jitter::proportional);
    CHECK(relay.batch_size == 50);
    CHECK(relay.poll_interval == seconds{2});
    CHECK(relay.lease_term == seconds{300});
    CHECK_FALSE(relay.hold_destinations);
    CHECK(relay.charge_every_failure);
    CHECK(relay.retry_share == 1);
    CHECK_FALSE(relay.ramp_after_open);
    CHECK(config.warnings.size() == 1);  // no redeliveries
  }
}

TEST_CASE("an empty list of redeliveries is told at start") {
  const auto config = config_of(std::string(kMinimal) + "retry: { redeliveryIntervals: [] }\n");
  REQUIRE(config.usable());
  REQUIRE(config.warnings.size() == 1);
  CHECK(config.warnings[0].find("redeliveryIntervals is empty") != std::string::npos);
}

TEST_CASE("flags alone are enough, and an empty file is fine") {
  for (const char* text : {"", "# nothing\n", "---\n", "{}\n"}) {
    CAPTURE(text);
    const auto config = config_of(
        text, {{"--store", "store.url", "sqlite:///a"}, {"--broker", "broker.url", "null:"}});
    CHECK_MESSAGE(config.usable(), problems_of(config));
    CHECK(config.settings.broker == "main");
  }
}

TEST_CASE("--broker means the only broker, whatever its name") {
  const auto config = config_of("store: {url: 'sqlite:a'}\nbrokers: {events: {url: 'null:'}}\n",
                                {{"--broker", "broker.url", "stdout:"}});
  REQUIRE_MESSAGE(config.usable(), problems_of(config));
  CHECK(config.settings.broker == "events");
  CHECK(config.settings.publisher.url == "stdout:");
}

TEST_CASE("the environment names a broker in capitals, and lists and maps are YAML flow") {
  const auto config = config_of("store: {url: 'sqlite:a'}\nbrokers: {Events: {url: 'null:'}}\n", {},
                                {{"OUTBOX_RELAY__BROKERS__EVENTS__PUBLISHTIMEOUT", "3s"},
                                 {"OUTBOX_RELAY__BROKERS__EVENTS__HEADERS", "{X-A: '1', X-B: two}"},
                                 {"OUTBOX_RELAY__RETRY__REDELIVERYINTERVALS", "[1m, 2m]"},
                                 {"OUTBOX_RELAY__BREAKER", "{probes: 3, minimumThroughput: 4}"},
                                 {"OUTBOX_RELAY__BREAKER__PROBES", "5"},
                                 {"OUTBOX_RELAY__ROUTES", "[{destination: all}]"},
                                 {"OUTBOX_RELAY_SERVICE_HOST", "10.0.0.1"},
                                 {"OTHER", "x"}});
  REQUIRE_MESSAGE(config.usable(), problems_of(config));
  CHECK(config.settings.broker == "Events");
  CHECK(config.settings.publisher.publish_timeout == seconds{3});
  CHECK(config.settings.publisher.headers.size() == 2);
  CHECK(config.settings.relay.retry.redelivery_intervals.size() == 2);
  CHECK(config.settings.relay.breaker.probes == 5);
  CHECK(config.settings.relay.breaker.minimum_throughput == 4);
  CHECK(config.settings.relay.routes.size() == 1);
}

TEST_CASE("the environment alone can name a broker") {
  const auto config = config_of(
      "", {},
      {{"OUTBOX_RELAY__STORE__URL", "sqlite:a"}, {"OUTBOX_RELAY__BROKERS__SPARE__URL", "null:"}});
  REQUIRE_MESSAGE(config.usable(), problems_of(config));
  CHECK(config.settings.broker == "spare");
}

TEST_CASE("an unknown variable is an error with a suggestion") {
  const auto lines = lines_of(config_of(kMinimal, {},
                                        {{"OUTBOX_RELAY__RELAY__BATCHSIZES", "1"},
                                         {"OUTBOX_RELAY__relay__batchSize", "1"},
                                         {"OUTBOX_RELAY__RELAY__MAXINFLIGHT", "x"},
                                         {"OUTBOX_RELAY__", "1"}}));
  REQUIRE(lines.size() == 4);
  CHECK(lines[0].find("OUTBOX_RELAY__: unknown setting") != std::string::npos);
  CHECK(lines[1] ==
        "environment variable OUTBOX_RELAY__RELAY__BATCHSIZES: unknown setting; did you mean "
        "\"OUTBOX_RELAY__RELAY__BATCHSIZE\"?");
  CHECK(lines[2].find("did you mean \"OUTBOX_RELAY__RELAY__BATCHSIZE\"?") != std::string::npos);
  CHECK(lines[3] ==
        "environment variable OUTBOX_RELAY__RELAY__MAXINFLIGHT: relay.maxInFlight = \"x\": must be "
        "a whole number, without sign or unit");
}

TEST_CASE("variables in a file are expanded in values only, and give single values only") {
  const Environment environment = {{"TABLE", "events"}, {"LIST", "[1m, 2m]"}, {"N", "7"}};
  const auto config = config_of(
      "store: {url: 'sqlite:a', table: '${TABLE}'}\nbrokers: {main: {url: 'null:'}}\n"
      "relay: {batchSize: '${N}'}\nlog: {level: '${LOG_LEVEL:-warn}'}\n",
      {}, environment);
  REQUIRE_MESSAGE(config.usable(), problems_of(config));
  CHECK(config.settings.store.table == "events");
  CHECK(config.settings.relay.batch_size == 7);
  CHECK(config.settings.log.level == LogLevel::warn);
  CHECK_FALSE(config_of(std::string(kMinimal) + "retry: {redeliveryIntervals: '${LIST}'}\n", {},
                        environment)
                  .usable());
  CHECK_FALSE(config_of(std::string(kMinimal) + "\"${TABLE}\": 1\n", {}, environment).usable());
}

TEST_CASE("what a variable holds is not shown when it is wrong") {
  const auto lines = lines_of(config_of(std::string(kMinimal) + "relay: {leaseTerm: '${SECRET}'}\n",
                                        {}, {{"SECRET", "hunter2"}}));
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].find("hunter2") == std::string::npos);
  CHECK(lines[0].find("${SECRET}") != std::string::npos);
}

TEST_CASE("settings in force are shown without secrets") {
  const auto config = config_of(
      "store: {url: 'sqlite:a'}\nbrokers: {main: {url: 'https://h/x?token=hunter2', headers: "
      "{Authorization: hunter2}}}\n");
  for (const auto& value : config.values) {
    CAPTURE(value.path);
    CHECK(value.text.find("hunter2") == std::string::npos);
  }
  CHECK(value_of(config, "brokers.main.headers").text == "{Authorization: ***}");
}

TEST_CASE("what this version does not do yet is told") {
  const auto config = config_of(std::string(kMinimal) + "admin: {tokenFile: /t}\n");
  CHECK(config.usable());
  REQUIRE(config.warnings.size() == 1);
  CHECK(config.warnings[0].find("admin.tokenFile has no effect") != std::string::npos);
  CHECK(config_of(std::string(kMinimal) + "admin: {tokenFile: ''}\n").warnings.empty());
}

TEST_CASE("delivered rows stay a week, those of a foreign table for ever unless somebody says so") {
  using std::chrono::hours;
  const auto processed = [](const std::string& more) {
    const auto config = config_of("brokers: {main: {url: 'null:'}}\n" + more);
    CHECK(config.usable());
    return config.settings.retention.processed;
  };
  CHECK(processed("store: {url: 'sqlite:a'}") == hours{7 * 24});
  CHECK_FALSE(processed("store: {url: 'sqlite:a', preset: other}").has_value());
  CHECK_FALSE(processed("store: {url: 'sqlite:a', columns: {id: Id}}").has_value());
  CHECK_FALSE(processed("store: {url: 'sqlite:a', states: {pending: 0}}").has_value());
  const std::string foreign = "store: {url: 'sqlite:a', columns: {id: Id}}\n";
  CHECK(processed(foreign + "retention: {processed: 7d}") == hours{7 * 24});
  CHECK(value_of(config_of(foreign), "retention.processed").text == "never");
}

TEST_CASE("retention takes durations, zero, and never") {
  const auto config = config_of(std::string(kMinimal) +
                                "retention: {processed: 0s, deadLettered: 90d, attempts: never, "
                                "interval: 10m, chunk: 50}\naudit: {attempts: all}\n");
  REQUIRE(config.usable());
  const auto& retention = config.settings.retention;
  CHECK(retention.processed == Duration{0});
  CHECK(retention.dead_lettered == std::chrono::hours{90 * 24});
  CHECK_FALSE(retention.attempts.has_value());
  CHECK(retention.interval == std::chrono::minutes{10});
  CHECK(retention.chunk == 50);
  CHECK(config.settings.store.attempts_kept == AttemptsKept::all);
  const auto fallback = config_of(kMinimal).settings;
  CHECK_FALSE(fallback.retention.dead_lettered.has_value());
  CHECK(fallback.retention.attempts == std::chrono::hours{30 * 24});
  CHECK(fallback.store.attempts_kept == AttemptsKept::failures);
}

TEST_CASE("columns, states and times of a table of one's own reach the store's settings") {
  const auto config = config_of(
      "store: {url: 'sqlite:a', columns: {id: Id, eventType: 'Event Type'}, states: {pending: 0}, "
      "times: ticks}\nbrokers: {main: {url: 'null:'}}\n");
  REQUIRE(config.usable());
  const auto& store = config.settings.store;
  CHECK(store.columns ==
        std::map<std::string, std::string>{{"id", "Id"}, {"eventType", "Event Type"}});
  CHECK(store.states == std::map<std::string, std::string>{{"pending", "0"}});
  CHECK(store.times == "ticks");
}

TEST_CASE("a missing file is a problem only if it was named") {
  ConfigInput input;
  input.file = "/no/such/relay.yaml";
  input.needs_store = false;
  input.needs_broker = false;
  CHECK(load_config(input, named_backends()).usable());
  input.file_required = true;
  const auto lines = lines_of(load_config(input, named_backends()));
  REQUIRE(lines.size() == 1);
  CHECK(lines[0] == "/no/such/relay.yaml: there is no such file; name one with --config FILE");
  input.file = std::filesystem::temp_directory_path().string();
  CHECK(lines_of(load_config(input, named_backends()))[0].find("is a directory") !=
        std::string::npos);
}

TEST_CASE("a command that needs no broker does without") {
  const TemporaryFile file("store: {url: 'sqlite:a'}\n");
  ConfigInput input;
  input.file = file.path();
  input.needs_broker = false;
  CHECK(load_config(input, named_backends()).usable());
  input.needs_broker = true;
  CHECK_FALSE(load_config(input, named_backends()).usable());
}

TEST_CASE("all that a backend finds wrong is told where it stands") {
  auto backends = named_backends();
  backends.stores["sqlite"].check = [](const StoreSettings& store) {
    return std::vector<SettingDefect>{{"url", "no " + store.table},
                                      {"preset", "store.preset: no such"},
                                      {"states.done", "store.states: no such"}};
  };
  backends.publishers["null"].check = [](const PublisherSettings&) {
    return std::vector<SettingDefect>{
        {"tls.caFile", "no file", "ca.pem"}, {"headers.X-Key", "no"}, {"other", "no thanks"}};
  };
  const TemporaryFile file(
      "store:\n  url: sqlite:a\n  states: {pending: 1, done: 2}\n"
      "brokers:\n  main:\n    url: 'null:'\n    tls: {caFile: ca.pem}\n"
      "    headers:\n      X-Key: hidden\n");
  ConfigInput input;
  input.file = file.path();
  input.flags = {{"--preset", "store.preset", "dotne"}};
  const std::string at = file.path() + ":";
  CHECK(lines_of(load_config(input, backends)) ==
        std::vector<std::string>{at + "2:8: store.url = \"sqlite:a\": no outbox_messages",
                                 at + "3:30: store.states.done = \"2\": no such",
                                 at + "6:10: brokers.main.url = \"null:\": other: no thanks",
                                 at + "7:19: brokers.main.tls.caFile = \"ca.pem\": no file",
                                 at + "9:14: brokers.main.headers.X-Key: no",
                                 "flag --preset: store.preset = \"dotne\": no such"});
  input.needs_broker = false;
  const auto lines = lines_of(load_config(input, backends));
  CHECK(lines.size() == 5);
  for (const auto& line : lines) CHECK(line.find("caFile") == std::string::npos);
}

TEST_CASE("a document that refers to itself is refused, not followed") {
  const auto config = config_of("store: &s {url: 'sqlite:a', columns: *s}\nroutes: &r [*r]\n");
  CHECK_FALSE(config.usable());
}

TEST_CASE("an unknown path of --set is refused with a suggestion") {
  const auto lines =
      lines_of(config_of(kMinimal, {{"--set", "relay.batchSice", "3"}, {"--set", "", "3"}}));
  REQUIRE(lines.size() == 2);
  CHECK(lines[0] == "flag --set: relay.batchSice: unknown key; did you mean \"batchSize\"?");
}

}  // namespace
}  // namespace outbox
