// The series whose labels are known at the start, registered once and from then on only counted.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <array>
#include <cstddef>
#include <string>

#include "metrics/store_operation.h"
#include "relay/message.h"
#include "relay/observer.h"

namespace outbox {

// Why a destination is held, as the label `reason` names it.
enum class HoldReason { misconfigured, refused };

const char* name_of(HoldReason reason);
HoldReason hold_reason_of(FailureKind kind);

// Pointers to the series of one family, by the value of its enumerated label.
template <class Metric, class Enum, std::size_t kCount>
class SeriesBy {
 public:
  Metric& operator[](Enum value) const { return *series_.at(static_cast<std::size_t>(value)); }
  void set(Enum value, Metric& metric) { series_.at(static_cast<std::size_t>(value)) = &metric; }

 private:
  std::array<Metric*, kCount> series_{};
};

// Safe to use from any thread; lives no longer than the registry.
struct Series {
  Series(prometheus::Registry& registry, const std::string& broker);

  using Counter = prometheus::Counter;
  using Gauge = prometheus::Gauge;
  using Histogram = prometheus::Histogram;

  SeriesBy<Gauge, CircuitState, 4> circuit_state;
  SeriesBy<Counter, CircuitState, 4> circuit_transitions;
  Counter& circuit_open_seconds;
  Gauge& circuit_next_probe;
  Gauge& broker_up;
  Gauge& in_flight_limit;
  SeriesBy<Gauge, HoldReason, 2> destinations_held;

  Counter& publish_attempts;
  SeriesBy<Counter, FailureKind, 8> publish_failures;  // none for kinds that are never sent
  Counter& retries;
  SeriesBy<Counter, DeadReason, 6> dead_lettered;
  Counter& redriven;
  Counter& redelivered;
  Histogram& delivery_lag;
  Histogram& publish_duration;

  Gauge& messages_pending;
  Gauge& messages_failed;
  Gauge& messages_leased;
  Gauge& messages_dead_lettered;
  Gauge& oldest_pending_age;
  Gauge& backlog_sample;

  Gauge& store_up;
  SeriesBy<Counter, StoreOperation, 4> store_faults;
  SeriesBy<Histogram, StoreOperation, 4> store_duration;  // none for settle
  Gauge& leases_held;
  Counter& lease_expired;
  Counter& settlements_fenced;
  Gauge& active;
  Gauge& paused;
  Gauge& last_poll_success;
  Gauge& sqlite_wal_bytes;
  Counter& sqlite_busy;

  Gauge& config_last_reload_successful;
  Counter& label_overflow;
  Counter& process_cpu;
  Gauge& process_resident_memory;
  Gauge& process_open_fds;
  Gauge& process_max_fds;
  Gauge& process_start_time;
};

}  // namespace outbox
