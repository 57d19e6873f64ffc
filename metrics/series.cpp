#include "metrics/series.h"

#include "metrics/names.h"

namespace outbox {

namespace {

using prometheus::Labels;
using prometheus::Registry;

prometheus::Counter& counter(Registry& registry, const metric::Family& family,
                             const Labels& labels = {}) {
  return prometheus::BuildCounter()
      .Name(family.name)
      .Help(family.help)
      .Register(registry)
      .Add(labels);
}

prometheus::Gauge& gauge(Registry& registry, const metric::Family& family,
                         const Labels& labels = {}) {
  return prometheus::BuildGauge()
      .Name(family.name)
      .Help(family.help)
      .Register(registry)
      .Add(labels);
}

// Each bucket is a series: few of them, at the bounds that objectives and time-outs stand for.
const prometheus::Histogram::BucketBoundaries kLagBuckets{0.01, 0.05, 0.1, 0.5, 1,
                                                          5,    15,   60,  300, 3600};
const prometheus::Histogram::BucketBoundaries kPublishBuckets{
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5};
const prometheus::Histogram::BucketBoundaries kStoreBuckets{0.001, 0.0025, 0.005, 0.01,
                                                            0.05,  0.25,   1,     10};

prometheus::Histogram& histogram(Registry& registry, const metric::Family& family,
                                 const prometheus::Histogram::BucketBoundaries& buckets,
                                 const Labels& labels = {}) {
  return prometheus::BuildHistogram()
      .Name(family.name)
      .Help(family.help)
      .Register(registry)
      .Add(labels, buckets);
}

void add_circuit(Series& series, Registry& registry, const std::string& broker) {
  using namespace metric::label;
  for (const CircuitState state : {CircuitState::closed, CircuitState::open,
                                   CircuitState::half_open, CircuitState::isolated}) {
    series.circuit_state.set(state, gauge(registry, metric::kBrokerCircuitState,
                                          {{kBroker, broker}, {kState, name_of(state)}}));
    series.circuit_transitions.set(state, counter(registry, metric::kBrokerCircuitTransitions,
                                                  {{kBroker, broker}, {kTo, name_of(state)}}));
  }
  for (const HoldReason reason : {HoldReason::misconfigured, HoldReason::refused}) {
    series.destinations_held.set(reason, gauge(registry, metric::kDestinationsHeld,
                                               {{kBroker, broker}, {kReason, name_of(reason)}}));
  }
}

void add_failures(Series& series, Registry& registry, const std::string& broker) {
  using namespace metric::label;
  for (const FailureKind kind :
       {FailureKind::transport, FailureKind::throttled, FailureKind::misconfigured,
        FailureKind::refused, FailureKind::conflict}) {
    series.publish_failures.set(kind, counter(registry, metric::kPublishFailures,
                                              {{kBroker, broker}, {kKind, name_of(kind)}}));
  }
  for (const DeadReason reason :
       {DeadReason::attempts_exhausted, DeadReason::permanent, DeadReason::oversized,
        DeadReason::invalid_row, DeadReason::misconfigured, DeadReason::crashed}) {
    series.dead_lettered.set(reason, counter(registry, metric::kDeadLettered,
                                             {{kBroker, broker}, {kReason, name_of(reason)}}));
  }
}

void add_store_operations(Series& series, Registry& registry) {
  using namespace metric::label;
  for (const StoreOperation operation : {StoreOperation::turn, StoreOperation::settle,
                                         StoreOperation::sample, StoreOperation::command}) {
    const Labels labels{{kOperation, name_of(operation)}};
    series.store_faults.set(operation, counter(registry, metric::kStoreFaults, labels));
    if (operation == StoreOperation::settle) continue;
    series.store_duration.set(
        operation, histogram(registry, metric::kStoreOperationDuration, kStoreBuckets, labels));
  }
}

}  // namespace

const char* name_of(StoreOperation operation) {
  switch (operation) {
    case StoreOperation::turn:
      return "turn";
    case StoreOperation::settle:
      return "settle";
    case StoreOperation::sample:
      return "sample";
    case StoreOperation::command:
      return "command";
  }
  return "turn";
}

const char* name_of(HoldReason reason) {
  switch (reason) {
    case HoldReason::misconfigured:
      return "misconfigured";
    case HoldReason::refused:
      return "refused";
  }
  return "misconfigured";
}

HoldReason hold_reason_of(FailureKind kind) {
  switch (kind) {
    case FailureKind::refused:
      return HoldReason::refused;
    case FailureKind::held:
    case FailureKind::none:
    case FailureKind::transport:
    case FailureKind::throttled:
    case FailureKind::misconfigured:
    case FailureKind::conflict:
    case FailureKind::short_circuited:
      return HoldReason::misconfigured;
  }
  return HoldReason::misconfigured;
}

Series::Series(Registry& registry, const std::string& broker)
    : circuit_open_seconds(
          counter(registry, metric::kBrokerCircuitOpenSeconds, {{metric::label::kBroker, broker}})),
      circuit_next_probe(
          gauge(registry, metric::kBrokerCircuitNextProbe, {{metric::label::kBroker, broker}})),
      broker_up(gauge(registry, metric::kBrokerUp, {{metric::label::kBroker, broker}})),
      in_flight_limit(
          gauge(registry, metric::kBrokerInFlightLimit, {{metric::label::kBroker, broker}})),
      publish_attempts(
          counter(registry, metric::kPublishAttempts, {{metric::label::kBroker, broker}})),
      retries(counter(registry, metric::kRetries, {{metric::label::kBroker, broker}})),
      redriven(counter(registry, metric::kRedriven)),
      redelivered(counter(registry, metric::kRedelivered, {{metric::label::kBroker, broker}})),
      delivery_lag(histogram(registry, metric::kDeliveryLag, kLagBuckets,
                             {{metric::label::kBroker, broker}})),
      publish_duration(histogram(registry, metric::kPublishDuration, kPublishBuckets,
                                 {{metric::label::kBroker, broker}})),
      messages_pending(gauge(registry, metric::kMessages, {{metric::label::kStatus, "pending"}})),
      messages_failed(gauge(registry, metric::kMessages, {{metric::label::kStatus, "failed"}})),
      messages_leased(gauge(registry, metric::kMessages, {{metric::label::kStatus, "leased"}})),
      messages_dead_lettered(
          gauge(registry, metric::kMessages, {{metric::label::kStatus, "dead_lettered"}})),
      oldest_pending_age(gauge(registry, metric::kOldestPendingAge)),
      backlog_sample(gauge(registry, metric::kBacklogSample)),
      store_up(gauge(registry, metric::kStoreUp)),
      leases_held(gauge(registry, metric::kLeasesHeld)),
      lease_expired(counter(registry, metric::kLeaseExpired)),
      settlements_fenced(counter(registry, metric::kSettlementsFenced)),
      active(gauge(registry, metric::kActive)),
      paused(gauge(registry, metric::kPaused)),
      last_poll_success(gauge(registry, metric::kLastPollSuccess)),
      sqlite_wal_bytes(gauge(registry, metric::kSqliteWalBytes)),
      sqlite_busy(counter(registry, metric::kSqliteBusy)),
      config_last_reload_successful(gauge(registry, metric::kConfigLastReloadSuccessful)),
      label_overflow(counter(registry, metric::kMetricLabelOverflow)),
      process_cpu(counter(registry, metric::kProcessCpu)),
      process_resident_memory(gauge(registry, metric::kProcessResidentMemory)),
      process_open_fds(gauge(registry, metric::kProcessOpenFds)),
      process_max_fds(gauge(registry, metric::kProcessMaxFds)),
      process_start_time(gauge(registry, metric::kProcessStartTime)) {
  add_circuit(*this, registry, broker);
  add_failures(*this, registry, broker);
  add_store_operations(*this, registry);
}

}  // namespace outbox
