// The relay as a program that runs until it is told to stop: everything assembled.
#pragma once

#include <memory>
#include <stop_token>

#include "metrics/health_server.h"
#include "metrics/metrics.h"
#include "relay/app/backlog_sampler.h"
#include "relay/app/boot_clock.h"
#include "relay/app/broker_files.h"
#include "relay/app/config.h"
#include "relay/app/config_reloader.h"
#include "relay/app/fan_out_observer.h"
#include "relay/app/log_observer.h"
#include "relay/app/program_health.h"
#include "relay/app/retention_thread.h"
#include "relay/app/signals.h"
#include "relay/receipt_queue.h"
#include "relay/relay.h"
#include "relay/relay_loop.h"
#include "relay/status_board.h"
#include "relay/tuning.h"
#include "relay/waker.h"

namespace outbox {

class Sidecar {
 public:
  // Listens first, so that probes are answered, then assembles the rest. Throws SettingsError when
  // it can't, for instance since the port is taken. The arguments outlive it.
  Sidecar(const Config& config, const Backends& backends, Log& log);
  ~Sidecar();
  Sidecar(const Sidecar&) = delete;
  Sidecar& operator=(const Sidecar&) = delete;

  // Relays until a signal comes, then drains. Returns the exit code: 0 after a clean drain, 1 when
  // leases had to be left behind. A second signal, a second or more after the first, ends the
  // process at once with 1.
  int run(Signals& signals);

 private:
  MetricsOptions metrics_options() const;
  void tell_started() const;
  void wait_for_end(Signals& signals);
  void on_signal(int signal);
  void take_over(const Settings& settings);
  int tell_stopped(LoopEnd end);

  const Config& config_;
  const Settings& settings_;
  Log& log_;

  const BootClock clock_;
  Time stopping_since_{};
  Metrics metrics_;
  LogObserver log_observer_;
  FanOutObserver observer_;

  StatusBoard board_;
  ProgramHealth health_;
  HealthServer server_;

  Waker waker_;
  TuningBox tunings_;
  ReceiptQueue receipts_;
  std::unique_ptr<OutboxStore> store_;
  std::unique_ptr<Publisher> publisher_;
  Relay relay_;
  RelayLoop loop_;
  BacklogSampler sampler_;
  RetentionThread retention_;
  ConfigReloader reloader_;
  BrokerFiles broker_files_;
  std::stop_source stop_;
};

}  // namespace outbox
