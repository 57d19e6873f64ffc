// Samples of the backlog, event types, and what the program itself reports.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "fixture.h"

namespace outbox {
namespace {

constexpr const char* kOther = R"(published_total{broker="main",event_type="__other__"})";

Backlog backlog_of(std::uint64_t pending, std::optional<Duration> oldest_age) {
  Backlog backlog;
  backlog.pending = pending;
  backlog.failed = 2;
  backlog.leased = 3;
  backlog.dead_lettered = 4;
  backlog.oldest_age = oldest_age;
  return backlog;
}

void publish(Metrics& metrics, const std::string& event_type) {
  const Message message = message_of(event_type);
  metrics.observer().on_delivery({.message = &message,
                                  .destination = "",
                                  .outcome = Outcome::confirmed,
                                  .reason = "",
                                  .sent = true});
}

std::string published(const std::string& event_type) {
  return "published_total{broker=\"main\",event_type=\"" + event_type + "\"}";
}

TEST_CASE_FIXTURE(MetricsFixture, "a sample shows how many messages are in each state") {
  Metrics metrics(options, clock);
  metrics.set_backlog(backlog_of(1, std::nullopt), clock.now());
  const Scrape scrape(metrics.exposition());
  CHECK(scrape[R"(messages{status="pending"})"] == 1);
  CHECK(scrape[R"(messages{status="failed"})"] == 2);
  CHECK(scrape[R"(messages{status="leased"})"] == 3);
  CHECK(scrape[R"(messages{status="dead_lettered"})"] == 4);
}

TEST_CASE_FIXTURE(MetricsFixture, "the oldest age grows while the sampler is stuck") {
  Metrics metrics(options, clock);
  metrics.set_backlog(backlog_of(1, std::chrono::seconds{30}), clock.now());
  CHECK(Scrape(metrics.exposition())["oldest_pending_age_seconds"] == doctest::Approx(30));
  advance(std::chrono::minutes{10});
  CHECK(Scrape(metrics.exposition())["oldest_pending_age_seconds"] == doctest::Approx(630));
  CHECK(Scrape(metrics.exposition())["backlog_sample_timestamp_seconds"] == doctest::Approx(1.8e9));
}

TEST_CASE_FIXTURE(MetricsFixture, "an empty backlog has no age, however old the sample is") {
  Metrics metrics(options, clock);
  metrics.set_backlog(backlog_of(1, std::chrono::seconds{30}), clock.now());
  metrics.set_backlog(backlog_of(0, std::nullopt), clock.now());
  advance(std::chrono::minutes{10});
  CHECK(Scrape(metrics.exposition())["oldest_pending_age_seconds"] == 0);
}

TEST_CASE_FIXTURE(MetricsFixture, "an age from a clock that is ahead is never shown as negative") {
  Metrics metrics(options, clock);
  metrics.set_backlog(backlog_of(1, -std::chrono::seconds{30}), clock.now());
  CHECK(Scrape(metrics.exposition())["oldest_pending_age_seconds"] == 0);
}

TEST_CASE_FIXTURE(MetricsFixture, "dead letters are shown by type and go when they are gone") {
  Metrics metrics(options, clock);
  Backlog backlog;
  backlog.dead_by_event_type = {{"asset.created", 5}, {"asset.moved", 6}};
  metrics.set_backlog(backlog, clock.now());
  const Scrape before(metrics.exposition());
  CHECK(before[R"(dead_letters{event_type="asset.created"})"] == 5);
  CHECK(before[R"(dead_letters{event_type="asset.moved"})"] == 6);
  backlog.dead_by_event_type = {{"asset.moved", 1}};
  metrics.set_backlog(backlog, clock.now());
  const Scrape after(metrics.exposition());
  CHECK(after[R"(dead_letters{event_type="asset.created"})"] == 0);
  CHECK(after[R"(dead_letters{event_type="asset.moved"})"] == 1);
}

TEST_CASE_FIXTURE(MetricsFixture, "dead letters beyond the limit are summed up as __other__") {
  options.event_type_limit = 1;
  Metrics metrics(options, clock);
  Backlog backlog;
  backlog.dead_by_event_type = {{"a", 1}, {"b", 2}, {"c", 4}};
  metrics.set_backlog(backlog, clock.now());
  metrics.set_backlog(backlog, clock.now());
  const Scrape scrape(metrics.exposition());
  CHECK(scrape[R"(dead_letters{event_type="a"})"] == 1);
  CHECK(scrape[R"(dead_letters{event_type="__other__"})"] == 6);
  CHECK(scrape["metric_label_overflow_total"] == 0);  // samples are no events
}

TEST_CASE_FIXTURE(MetricsFixture, "event types beyond the limit count as __other__") {
  options.event_type_limit = 2;
  Metrics metrics(options, clock);
  for (const char* event_type : {"a", "b", "c", "d", "a", "c"}) publish(metrics, event_type);
  const Scrape scrape(metrics.exposition());
  CHECK(scrape[published("a")] == 2);
  CHECK(scrape[published("b")] == 1);
  CHECK_FALSE(scrape.samples.contains("outbox_relay_" + published("c")));
  CHECK(scrape[kOther] == 3);
  CHECK(scrape["metric_label_overflow_total"] == 3);
}

TEST_CASE_FIXTURE(MetricsFixture,
                  "listed event types are there from the start, and no others come") {
  options.event_types = {"asset.created", "asset.moved"};
  Metrics metrics(options, clock);
  CHECK(Scrape(metrics.exposition())[published("asset.moved")] == 0);
  publish(metrics, "asset.created");
  publish(metrics, "user.created");
  const Scrape scrape(metrics.exposition());
  CHECK(scrape[published("asset.created")] == 1);
  CHECK_FALSE(scrape.samples.contains("outbox_relay_" + published("user.created")));
  CHECK(scrape[kOther] == 1);
  CHECK(scrape["metric_label_overflow_total"] == 0);  // it is what the list asks for
}

TEST_CASE_FIXTURE(MetricsFixture, "a limit of 0 gives no event type a series") {
  options.event_type_limit = 0;
  Metrics metrics(options, clock);
  publish(metrics, "a");
  const Scrape scrape(metrics.exposition());
  CHECK_FALSE(scrape.samples.contains("outbox_relay_" + published("a")));
  CHECK(scrape[kOther] == 1);
  CHECK(scrape["metric_label_overflow_total"] == 0);
}

TEST_CASE_FIXTURE(MetricsFixture, "an event type that would spoil the scrape counts as __other__") {
  Metrics metrics(options, clock);
  publish(metrics, "");
  publish(metrics, "bad\xff");
  publish(metrics, "two\nlines");
  publish(metrics, std::string(100'000, 'x'));
  publish(metrics, "quoted\"\\");  // this one can be escaped
  publish(metrics, "gr\xc3\xbc\xc3\x9f");
  const Scrape scrape(metrics.exposition());
  CHECK(scrape[kOther] == 4);
  CHECK(scrape["metric_label_overflow_total"] == 4);
  CHECK(scrape[published(R"(quoted\"\\)")] == 1);
  CHECK(scrape[published("gr\xc3\xbc\xc3\x9f")] == 1);
  CHECK(scrape.text.size() < 64 * 1024);
}

TEST_CASE_FIXTURE(MetricsFixture, "an event type called __other__ is one of the others") {
  Metrics metrics(options, clock);
  publish(metrics, "__other__");
  CHECK(Scrape(metrics.exposition())[kOther] == 1);
}

TEST_CASE_FIXTURE(MetricsFixture,
                  "work at the database beside the turns is timed, faults counted") {
  Metrics metrics(options, clock);
  metrics.on_store_operation(StoreOperation::sample, std::chrono::milliseconds{20}, true);
  metrics.on_store_operation(StoreOperation::sample, std::chrono::milliseconds{20}, false);
  metrics.on_store_operation(StoreOperation::command, std::chrono::milliseconds{20}, true);
  const Scrape scrape(metrics.exposition());
  CHECK(scrape[R"(store_operation_duration_seconds_count{operation="sample"})"] == 2);
  CHECK(scrape[R"(store_operation_duration_seconds_count{operation="command"})"] == 1);
  CHECK(scrape[R"(store_faults_total{operation="sample"})"] == 1);
  CHECK(scrape[R"(store_faults_total{operation="command"})"] == 0);
}

TEST_CASE_FIXTURE(MetricsFixture, "redrives, consumers' faults and pauses show") {
  Metrics metrics(options, clock);
  metrics.on_redriven(12);
  metrics.on_consumer_fault("asset.created");
  TurnReport turn;
  turn.status = TurnStatus::committed;
  turn.paused = true;
  metrics.observer().on_turn(turn);
  const Scrape scrape(metrics.exposition());
  CHECK(scrape["redriven_total"] == 12);
  CHECK(
      scrape[R"(broker_fault_total{broker="main",event_type="asset.created",source="consume"})"] ==
      1);
  CHECK(
      scrape[R"(broker_fault_total{broker="main",event_type="asset.created",source="publish"})"] ==
      0);
  CHECK(scrape["paused"] == 1);
  turn.status = TurnStatus::failed;  // knows nothing of a pause
  turn.paused = false;
  metrics.observer().on_turn(turn);
  CHECK(Scrape(metrics.exposition())["paused"] == 1);
  turn.status = TurnStatus::committed;
  metrics.observer().on_turn(turn);
  CHECK(Scrape(metrics.exposition())["paused"] == 0);
}

TEST_CASE_FIXTURE(MetricsFixture, "a refused configuration shows, and the digest in use stays") {
  Metrics metrics(options, clock);
  CHECK(Scrape(metrics.exposition())["config_last_reload_successful"] == 1);
  metrics.on_config_refused();
  CHECK(Scrape(metrics.exposition())["config_last_reload_successful"] == 0);
  CHECK(Scrape(metrics.exposition())[R"(config_info{sha256="d1"})"] == 1);
  metrics.on_config_reloaded("d2");
  metrics.on_config_reloaded("d2");
  const Scrape scrape(metrics.exposition());
  CHECK(scrape["config_last_reload_successful"] == 1);
  CHECK(scrape[R"(config_info{sha256="d2"})"] == 1);
  CHECK_FALSE(scrape.samples.contains(R"(outbox_relay_config_info{sha256="d1"})"));
}

TEST_CASE_FIXTURE(MetricsFixture, "a certificate's expiry shows once it is known") {
  Metrics metrics(options, clock);
  metrics.set_tls_certificate_expiry(kNoon + std::chrono::seconds{60});
  CHECK(
      Scrape(metrics.exposition())[R"(tls_certificate_expiry_timestamp_seconds{broker="main"})"] ==
      doctest::Approx(1'800'000'060.0).epsilon(1e-12));
}

TEST_CASE_FIXTURE(MetricsFixture, "the write-ahead log's size is that of the file now") {
  options.sqlite_wal_file = "/tmp/outbox-metrics-" + std::to_string(getpid()) + "-wal";
  Metrics metrics(options, clock);
  CHECK(Scrape(metrics.exposition())["sqlite_wal_bytes"] == 0);
  std::ofstream(options.sqlite_wal_file) << std::string(4096, 'x');
  CHECK(Scrape(metrics.exposition())["sqlite_wal_bytes"] == 4096);
  std::remove(options.sqlite_wal_file.c_str());
}

TEST_CASE_FIXTURE(MetricsFixture, "the process's own figures are plausible") {
  Metrics metrics(options, clock);
  const Scrape scrape(metrics.exposition());
  const double now = unix_seconds_of(std::chrono::system_clock::now());
  CHECK(scrape.samples.at("process_resident_memory_bytes") > 1e6);
  CHECK(scrape.samples.at("process_resident_memory_bytes") < 1e10);
  CHECK(scrape.samples.at("process_open_fds") >= 3);
  CHECK(scrape.samples.at("process_max_fds") >= scrape.samples.at("process_open_fds"));
  CHECK(scrape.samples.at("process_start_time_seconds") <= now + 2);
  CHECK(scrape.samples.at("process_start_time_seconds") > now - 24 * 3600);
  CHECK(scrape.samples.at("process_cpu_seconds_total") >= 0);
}

TEST_CASE_FIXTURE(MetricsFixture, "open descriptors are counted one by one") {
  Metrics metrics(options, clock);
  const double before = Scrape(metrics.exposition()).samples.at("process_open_fds");
  FILE* one_more = std::fopen("/dev/null", "r");
  CHECK(Scrape(metrics.exposition()).samples.at("process_open_fds") == before + 1);
  std::fclose(one_more);
}

}  // namespace
}  // namespace outbox
