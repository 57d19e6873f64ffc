#include "metrics/metrics.h"

#include <prometheus/gauge.h>
#include <prometheus/registry.h>
#include <sys/stat.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include "metrics/event_types.h"
#include "metrics/exposition.h"
#include "metrics/label_text.h"
#include "metrics/names.h"
#include "metrics/process_stats.h"
#include "metrics/prometheus_observer.h"
#include "metrics/series.h"

namespace outbox {

namespace {

using GaugeFamily = prometheus::Family<prometheus::Gauge>;

GaugeFamily& gauges(prometheus::Registry& registry, const metric::Family& family) {
  return prometheus::BuildGauge().Name(family.name).Help(family.help).Register(registry);
}

double size_of_file(const std::string& path) {
  struct stat entry {};
  return !path.empty() && stat(path.c_str(), &entry) == 0 ? static_cast<double>(entry.st_size) : 0;
}

}  // namespace

struct Metrics::Parts {
  Parts(const MetricsOptions& options, const Clock& clock_)
      : clock(clock_),
        wall_clock(options.wall_clock),
        broker(options.broker),
        sqlite_wal_file(options.sqlite_wal_file),
        series(registry, broker),
        event_types(
            registry, broker,
            EventTypeOptions{.allowed = options.event_types, .limit = options.event_type_limit},
            series.label_overflow),
        observer(series, event_types, clock, wall_clock),
        config_info(gauges(registry, metric::kConfigInfo)),
        tls_certificate_expiry(gauges(registry, metric::kTlsCertificateExpiry)) {}

  void refresh();

  prometheus::Registry registry;
  const Clock& clock;
  const WallClock wall_clock;
  const std::string broker;
  const std::string sqlite_wal_file;
  Series series;
  EventTypes event_types;
  PrometheusObserver observer;
  GaugeFamily& config_info;
  GaugeFamily& tls_certificate_expiry;

  std::mutex mutex;  // guards what follows; held for a whole scrape, so that scrapes don't mix
  prometheus::Gauge* current_config = nullptr;
  std::optional<Time> oldest_since;  // when the oldest row of the last sample occurred
};

// With the mutex held.
void Metrics::Parts::refresh() {
  observer.refresh();
  series.oldest_pending_age.Set(
      oldest_since ? std::max(0.0, seconds_of(clock.now() - *oldest_since)) : 0);
  series.sqlite_wal_bytes.Set(size_of_file(sqlite_wal_file));
  const ProcessStats process = read_process_stats();
  series.process_cpu.Increment(std::max(0.0, process.cpu_seconds - series.process_cpu.Value()));
  series.process_resident_memory.Set(process.resident_bytes);
  series.process_open_fds.Set(process.open_fds);
  series.process_max_fds.Set(process.max_fds);
}

Metrics::Metrics(const MetricsOptions& options, const Clock& clock)
    : parts_(std::make_unique<Parts>(options, clock)) {
  using namespace metric::label;
  gauges(parts_->registry, metric::kBrokerInfo)
      .Add({{kBroker, options.broker}, {kEndpoint, without_secrets(options.endpoint)}}, 1.0);
  gauges(parts_->registry, metric::kBuildInfo)
      .Add({{kVersion, options.version}, {kRevision, options.revision}}, 1.0);
  parts_->series.in_flight_limit.Set(static_cast<double>(options.in_flight_limit));
  parts_->series.process_start_time.Set(read_process_start());
  on_config_reloaded(options.config_sha256);
}

Metrics::~Metrics() = default;

RelayObserver& Metrics::observer() { return parts_->observer; }

void Metrics::set_backlog(const Backlog& backlog, Time sampled_at) {
  const std::lock_guard lock(parts_->mutex);
  Series& series = parts_->series;
  series.messages_pending.Set(static_cast<double>(backlog.pending));
  series.messages_failed.Set(static_cast<double>(backlog.failed));
  series.messages_leased.Set(static_cast<double>(backlog.leased));
  series.messages_dead_lettered.Set(static_cast<double>(backlog.dead_lettered));
  parts_->event_types.set_dead_letters(backlog.dead_by_event_type);
  parts_->oldest_since =
      backlog.oldest_age ? std::optional(sampled_at - *backlog.oldest_age) : std::nullopt;
  const Duration since_sample = parts_->clock.now() - sampled_at;
  series.backlog_sample.Set(unix_seconds_of(parts_->wall_clock()) - seconds_of(since_sample));
}

void Metrics::on_store_operation(StoreOperation operation, Duration took, bool ok) {
  if (!ok) parts_->series.store_faults[operation].Increment();
  if (operation == StoreOperation::settle) return;
  parts_->series.store_duration[operation].Observe(seconds_of(took));
}

void Metrics::on_redriven(std::uint64_t messages) {
  parts_->series.redriven.Increment(static_cast<double>(messages));
}

void Metrics::on_consumer_fault(std::string_view event_type) {
  parts_->event_types.consume_fault_of(event_type).Increment();
}

void Metrics::on_config_reloaded(const std::string& config_sha256) {
  const std::lock_guard lock(parts_->mutex);
  prometheus::Gauge& now = parts_->config_info.Add({{metric::label::kSha256, config_sha256}}, 1.0);
  prometheus::Gauge* before = std::exchange(parts_->current_config, &now);
  if (before != nullptr && before != &now) parts_->config_info.Remove(before);
  parts_->series.config_last_reload_successful.Set(1);
}

void Metrics::on_config_refused() { parts_->series.config_last_reload_successful.Set(0); }

void Metrics::on_stopping() { parts_->observer.on_stopping(); }

void Metrics::set_tls_certificate_expiry(WallTime expiry) {
  parts_->tls_certificate_expiry.Add({{metric::label::kBroker, parts_->broker}})
      .Set(unix_seconds_of(expiry));
}

std::string Metrics::exposition() {
  std::vector<prometheus::MetricFamily> families;
  {
    const std::lock_guard lock(parts_->mutex);
    parts_->refresh();
    families = parts_->registry.Collect();
  }
  const auto is_expiry = [](const prometheus::MetricFamily& family) {
    return family.name == metric::kTlsCertificateExpiry.name;
  };
  // The registry leaves out a family without series; its meaning should be on the page all the
  // same.
  if (std::none_of(families.begin(), families.end(), is_expiry)) {
    families.push_back({metric::kTlsCertificateExpiry.name,
                        metric::kTlsCertificateExpiry.help,
                        prometheus::MetricType::Gauge,
                        {}});
  }
  return to_exposition(std::move(families));
}

}  // namespace outbox
