#include "relay/app/sidecar.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <random>
#include <thread>

namespace outbox {
namespace {

// Where Kubernetes looks for a container's last words. It makes the file; we never do.
constexpr const char* kTerminationLog = "/dev/termination-log";

// A second signal within this time is the first one once more.
constexpr Duration kOneRequest = std::chrono::seconds{1};

std::string sqlite_wal_file(const std::string& url) {
  if (scheme_of(url) != "sqlite") return {};
  std::string path = url.substr(url.find(':') + 1);
  if (path.starts_with("//")) path.erase(0, 2);
  return path + "-wal";
}

void write_last_words(const std::string& text) {
  const OwnedFd file(open(kTerminationLog, O_WRONLY | O_TRUNC | O_CLOEXEC));
  if (file.get() < 0) return;
  [[maybe_unused]] const auto written = write(file.get(), text.data(), text.size());
}

PublisherSettings publisher_settings(const Settings& settings, Metrics& metrics) {
  PublisherSettings publisher = settings.publisher;
  publisher.on_certificate = [&metrics](std::chrono::sys_seconds expires) {
    metrics.set_tls_certificate_expiry(expires);
  };
  return publisher;
}

std::optional<Duration> earlier(std::optional<Duration> one, std::optional<Duration> other) {
  return one && other ? std::min(one, other) : (one ? one : other);
}

HealthServerOptions server_options(const Settings& settings) {
  HealthServerOptions options;
  options.listen = format_address(settings.listen);
  return options;
}

const StoreBackend& store_of(const Backends& backends, const Settings& settings) {
  return backends.stores.at(scheme_of(settings.store.url));
}

const PublisherBackend& publisher_of(const Backends& backends, const Settings& settings) {
  return backends.publishers.at(scheme_of(settings.publisher.url));
}

}  // namespace

Sidecar::Sidecar(const Config& config, const Backends& backends, Log& log)
    : config_(config),
      settings_(config.settings),
      log_(log),
      metrics_(metrics_options(), clock_),
      log_observer_(log, clock_, settings_.broker),
      observer_({&metrics_.observer(), &log_observer_}),
      health_(board_, clock_, settings_.stall_timeout),
      server_(server_options(settings_), metrics_, health_),
      waker_(clock_),
      tunings_(waker_),
      receipts_(waker_),
      store_(store_of(backends, settings_).open_store(settings_.store, clock_, waker_)),
      publisher_(publisher_of(backends, settings_)
                     .open(publisher_settings(settings_, metrics_), clock_, receipts_)),
      relay_(settings_.relay, *store_, *publisher_, receipts_, clock_, observer_, random_seed()),
      loop_(relay_, waker_, tunings_, clock_, board_, settings_.loop),
      sampler_(store_of(backends, settings_), settings_.store, settings_.metrics.sample_interval,
               {metrics_, log, clock_},
               [this](const Backlog& backlog, Time sampled_at) {
                 metrics_.set_backlog(backlog, sampled_at);
                 log_observer_.set_backlog(backlog, sampled_at);
               }),
      retention_(store_of(backends, settings_), settings_.store, settings_.retention,
                 settings_.relay.ordering == Ordering::key && settings_.relay.dead_blocks_key, log),
      reloader_(config, {backends, log, metrics_, clock_},
                [this](const Settings& settings) { take_over(settings); }),
      broker_files_(publisher_of(backends, settings_), settings_, log, clock_) {
  health_.on_set_up();
}

Sidecar::~Sidecar() {
  // What is still travelling ends here: its messages belong to the relay, which ends after it.
  publisher_.reset();
}

MetricsOptions Sidecar::metrics_options() const {
  return {.broker = settings_.broker,
          .endpoint = settings_.publisher.url,
          .version = OUTBOX_VERSION,
          .revision = {},
          .config_sha256 = digest_of(config_),
          .in_flight_limit = settings_.relay.in_flight_max,
          .sqlite_wal_file = sqlite_wal_file(settings_.store.url),
          .event_types = settings_.metrics.event_types,
          .event_type_limit = settings_.metrics.event_type_limit};
}

int Sidecar::run(Signals& signals) {
  tell_started();
  LoopEnd end;
  std::thread relay([&] {
    end = loop_.run(stop_.get_token());
    signals.finish();
  });
  wait_for_end(signals);
  relay.join();
  retention_.stop();
  publisher_.reset();
  store_->retire();
  sampler_.stop();
  return tell_stopped(end);
}

void Sidecar::tell_started() const {
  const std::string digest = digest_of(config_);
  std::vector<LogField> fields = {
      {"version", OUTBOX_VERSION}, {"http_port", server_.port()}, {"config_sha256", digest}};
  for (const auto& value : config_.values) {
    if (!value.text.empty()) fields.emplace_back(value.path, value.text);
  }
  log_.write(LogLevel::info, "started", fields);
  for (const auto& warning : config_.warnings) log_.warn(warning);
}

void Sidecar::wait_for_end(Signals& signals) {
  while (true) {
    const auto woken =
        signals.wait(reloader_.descriptor(), earlier(reloader_.wait(), broker_files_.wait()));
    if (woken.finished) return;
    if (woken.signal) on_signal(*woken.signal);
    if (woken.readable) reloader_.on_readable();
    reloader_.on_time();
    broker_files_.on_time();
  }
}

void Sidecar::on_signal(int signal) {
  if (signal == SIGHUP) {
    reloader_.reload();
  } else if (stop_.stop_requested() && clock_.now() - stopping_since_ < kOneRequest) {
    // `timeout` and some supervisors signal a process and its group: that is one request.
    log_.debug("a signal so soon after the first is the same request to stop");
  } else if (stop_.stop_requested()) {
    log_.error("stopped at once by a second signal: leases are left to end by their term");
    std::_Exit(1);
  } else {
    log_.info("stopping", {{"signal", signal == SIGINT ? "SIGINT" : "SIGTERM"},
                           {"drain_timeout_seconds", settings_.loop.drain_timeout}});
    stopping_since_ = clock_.now();
    health_.on_stopping();
    metrics_.on_stopping();
    stop_.request_stop();
  }
}

// What applies at once; `settings_` stays what the parts were made with.
void Sidecar::take_over(const Settings& settings) {
  log_.set(settings.log);
  retention_.set(settings.retention);
  const auto& relay = settings.relay;
  tunings_.put({relay.batch_size, relay.poll_interval, relay.retry, relay.breaker});
}

int Sidecar::tell_stopped(LoopEnd end) {
  log_observer_.flush();
  const auto& counts = log_observer_.counts();
  std::vector<LogField> fields = {{"drained", end.drained},
                                  {"published", counts.published},
                                  {"failed_attempts", counts.failed_attempts},
                                  {"short_circuited", counts.short_circuited},
                                  {"dead_lettered", counts.dead_lettered}};
  const auto left = sampler_.sample();
  std::string words = fmt::format("outbox-relay stopped, {}; published {}",
                                  end.drained ? "drained" : "not drained", counts.published);
  if (left) {
    fields.emplace_back("left_pending", left->pending);
    fields.emplace_back("left_failed", left->failed);
    fields.emplace_back("left_leased", left->leased);
    fields.emplace_back("left_dead_lettered", left->dead_lettered);
    words += fmt::format("; rows left: {} pending, {} failed, {} leased, {} dead-lettered",
                         left->pending, left->failed, left->leased, left->dead_lettered);
  } else {
    words += "; rows left: unknown, the database can't be read";
  }
  log_.write(end.drained ? LogLevel::info : LogLevel::warn, "stopped", fields);
  write_last_words(words + "\n");
  return end.drained ? 0 : 1;
}

}  // namespace outbox
