// The program's metrics: all series, who fills them, and the text that Prometheus reads.
//
//   Metrics metrics({.broker = "main", .endpoint = url, .version = OUTBOX_VERSION, ...}, clock);
//   Relay relay(..., metrics.observer(), seed);     // beside the log's observer, if there are two
//   metrics.set_backlog(backlog, sampled_at);       // the sampler, each metrics.sampleInterval
//   HealthServer server({.listen = "0.0.0.0:9711"}, metrics, health_source);
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "metrics/store_operation.h"
#include "metrics/wall_clock.h"
#include "relay/clock.h"
#include "relay/observer.h"
#include "relay/outbox_desk.h"

namespace outbox {

struct MetricsOptions {
  std::string broker = "main";  // its name in the configuration
  std::string endpoint;         // its URL; credentials and query are cut off
  std::string version;
  std::string revision;             // of the source, empty if unknown
  std::string config_sha256;        // of the configuration in use
  std::size_t in_flight_limit = 0;  // until the relay says otherwise
  std::string sqlite_wal_file;      // looked at when scraped; empty: the database has none

  // If not empty, only these event types have series of their own, and have them from the start.
  std::vector<std::string> event_types;
  // At most this many event types have, listed or met; 0: none has.
  std::size_t event_type_limit = 20;

  WallClock wall_clock = std::chrono::system_clock::now;
};

// Every series exists, at 0, once this is built. All but the observer's on_...() may be called from
// any thread.
class Metrics {
 public:
  // The clock outlives the metrics.
  Metrics(const MetricsOptions& options, const Clock& clock);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // What the relay reports to. Lives as long as this object.
  RelayObserver& observer();

  // A sample of the backlog, and when it was taken.
  void set_backlog(const Backlog& backlog, Time sampled_at);

  // Work at the database other than the relay's turns: sampling, an operator's orders.
  void on_store_operation(StoreOperation operation, Duration took, bool ok);

  // Dead letters moved back to pending by this process. The program does not call it yet: commands
  // that redrive are processes of their own.
  void on_redriven(std::uint64_t messages);

  // A consumer gave up a message of this type, as a fault observer reports it. The program does not
  // call it yet: it has no such observer.
  void on_consumer_fault(std::string_view event_type);

  // A changed configuration file was taken over, or refused: then the digest stays.
  void on_config_reloaded(const std::string& config_sha256);
  void on_config_refused();

  // Shutdown has begun: this relay is no longer active, even while it drains.
  void on_stopping();

  // When the first certificate of the broker's chain expires.
  void set_tls_certificate_expiry(WallTime expiry);

  // All series as of now, in Prometheus' text format 0.0.4.
  std::string exposition();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace outbox
