// Which families and series there are: what dashboards and alerts are built on.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>

#include "fixture.h"

namespace outbox {
namespace {

// Written out a second time on purpose: renaming one is a decision, not an edit.
const std::map<std::string, std::string> kPromised{
    {"broker_circuit_open_total", "counter"},
    {"broker_fault_total", "counter"},
    {"broker_circuit_state", "gauge"},
    {"broker_circuit_transitions_total", "counter"},
    {"broker_circuit_open_seconds_total", "counter"},
    {"broker_circuit_next_probe_timestamp_seconds", "gauge"},
    {"broker_up", "gauge"},
    {"broker_in_flight_limit", "gauge"},
    {"broker_info", "gauge"},
    {"destinations_held", "gauge"},
    {"publish_attempts_total", "counter"},
    {"published_total", "counter"},
    {"publish_failures_total", "counter"},
    {"retries_total", "counter"},
    {"dead_lettered_total", "counter"},
    {"redriven_total", "counter"},
    {"redelivered_total", "counter"},
    {"messages", "gauge"},
    {"oldest_pending_age_seconds", "gauge"},
    {"dead_letters", "gauge"},
    {"backlog_sample_timestamp_seconds", "gauge"},
    {"delivery_lag_seconds", "histogram"},
    {"publish_duration_seconds", "histogram"},
    {"store_up", "gauge"},
    {"store_faults_total", "counter"},
    {"store_operation_duration_seconds", "histogram"},
    {"leases_held", "gauge"},
    {"lease_expired_total", "counter"},
    {"settlements_fenced_total", "counter"},
    {"active", "gauge"},
    {"paused", "gauge"},
    {"last_poll_success_timestamp_seconds", "gauge"},
    {"sqlite_wal_bytes", "gauge"},
    {"sqlite_busy_total", "counter"},
    {"config_last_reload_successful", "gauge"},
    {"config_info", "gauge"},
    {"tls_certificate_expiry_timestamp_seconds", "gauge"},
    {"metric_label_overflow_total", "counter"},
    {"build_info", "gauge"},
};

const std::map<std::string, std::string> kOfTheProcess{
    {"process_cpu_seconds_total", "counter"},
    {"process_resident_memory_bytes", "gauge"},
    {"process_open_fds", "gauge"},
    {"process_max_fds", "gauge"},
    {"process_start_time_seconds", "gauge"},
};

// Each family's type and each series' labels, without the values.
std::string shape_of(const Scrape& scrape) {
  std::string shape;
  for (const auto& [name, type] : scrape.type) shape += "# " + name + " " + type + "\n";
  for (const auto& [key, value] : scrape.samples) shape += key + "\n";
  return shape;
}

std::string golden() {
  std::ifstream file(METRICS_GOLDEN_FILE);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void publish_of_every_type(Metrics& metrics, int types) {
  for (int i = 0; i < types; ++i) {
    const Message message = message_of("asset.kind" + std::to_string(i));
    metrics.observer().on_delivery({.message = &message,
                                    .destination = "",
                                    .outcome = Outcome::confirmed,
                                    .reason = "",
                                    .sent = true});
    metrics.observer().on_burial({.id = "1",
                                  .event_type = message.event_type,
                                  .reason = DeadReason::permanent,
                                  .attempts = 1,
                                  .error = ""});
    metrics.on_consumer_fault(message.event_type);
  }
}

TEST_CASE_FIXTURE(MetricsFixture,
                  "every promised family is there from the start, with its meaning") {
  Metrics metrics(options, clock);
  const Scrape scrape(metrics.exposition());
  for (const auto& [name, type] : kPromised) {
    CAPTURE(name);
    CHECK(scrape.type.contains("outbox_relay_" + name));
    CHECK(scrape.type.at("outbox_relay_" + name) == type);
    CHECK(scrape.help.at("outbox_relay_" + name).size() > 20);
  }
  for (const auto& [name, type] : kOfTheProcess) {
    CAPTURE(name);
    CHECK(scrape.type.contains(name));
    CHECK(scrape.type.at(name) == type);
  }
  CHECK(scrape.type.size() == kPromised.size() + kOfTheProcess.size());
}

TEST_CASE_FIXTURE(MetricsFixture,
                  "every family but the certificate's has a series from the start") {
  Metrics metrics(options, clock);
  const Scrape scrape(metrics.exposition());
  for (const auto& [name, type] : scrape.type) {
    CAPTURE(name);
    const auto first = scrape.samples.lower_bound(name);
    const bool has_series = first != scrape.samples.end() && first->first.starts_with(name);
    CHECK(has_series == (name != "outbox_relay_tls_certificate_expiry_timestamp_seconds"));
  }
}

TEST_CASE_FIXTURE(MetricsFixture, "names and labels are those of golden_metrics.txt") {
  Metrics metrics(options, clock);
  const std::string shape = shape_of(Scrape(metrics.exposition()));
  if (std::getenv("OUTBOX_UPDATE_GOLDEN") != nullptr) std::ofstream(METRICS_GOLDEN_FILE) << shape;
  INFO("if this change of a public name is meant, run once with OUTBOX_UPDATE_GOLDEN=1");
  CHECK(shape == golden());
}

TEST_CASE_FIXTURE(MetricsFixture, "thirty event types make no more than 300 series") {
  Metrics metrics(options, clock);
  publish_of_every_type(metrics, 30);
  metrics.set_tls_certificate_expiry(kNoon);
  const Scrape scrape(metrics.exposition());
  CHECK(scrape.samples.size() <= 300);
  MESSAGE("series: " << scrape.samples.size());
}

TEST_CASE_FIXTURE(MetricsFixture, "promtool finds nothing to complain about") {
  if (access("/usr/bin/promtool", X_OK) != 0) {
    MESSAGE("skipped: /usr/bin/promtool is not installed");
    return;
  }
  Metrics metrics(options, clock);
  publish_of_every_type(metrics, 3);
  FILE* promtool = popen("/usr/bin/promtool check metrics", "w");
  REQUIRE(promtool != nullptr);
  const std::string text = metrics.exposition();
  CHECK(std::fwrite(text.data(), 1, text.size(), promtool) == text.size());
  const int status = pclose(promtool);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE_FIXTURE(MetricsFixture, "no credential of the broker's URL is shown") {
  Metrics metrics(options, clock);
  const Scrape scrape(metrics.exposition());
  CHECK(scrape[R"(broker_info{broker="main",endpoint="https://events.example.com/inbox"})"] == 1);
  CHECK(scrape.text.find("secret") == std::string::npos);
}

}  // namespace
}  // namespace outbox
