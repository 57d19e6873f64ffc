// The relay's core: a state machine without thread, socket or clock of its own.
//
// Each step drains what the publisher reported, gives back what must not be sent, takes at most one
// turn at the store, submits what is ready, and says when it wants to be called again. The same
// object runs in production and under the simulator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "relay/circuit_breaker.h"
#include "relay/clock.h"
#include "relay/destinations.h"
#include "relay/observer.h"
#include "relay/outbox_store.h"
#include "relay/publisher.h"
#include "relay/ramp.h"
#include "relay/random.h"
#include "relay/receipt_queue.h"
#include "relay/retry_policy.h"
#include "relay/router.h"

namespace outbox {

struct RelayOptions {
  std::size_t batch_size = 100;
  std::size_t in_flight_max = 256;  // leased rows, travelling or ready
  std::uint64_t in_flight_bytes_max = 16u << 20;
  std::uint64_t payload_max = 4u << 20;
  Duration lease_term = std::chrono::seconds{30};
  Duration poll_interval = std::chrono::seconds{1};
  Duration publish_timeout = std::chrono::seconds{5};
  Ordering ordering = Ordering::none;
  bool dead_blocks_key = true;    // onDeadKey: block
  bool drain_on_stop = true;      // keep leasing after stop() until no row is due (P12)
  bool hold_destinations = true;  // off in profile adr-087
  bool charge_every_failure = false;  // adr-087: no outcome is exempt but cancellation
  bool ramp_after_open = true;
  double retry_share = 0.2;       // of the window, while fresh rows wait; 1: no limit
  Duration settle_wait = std::chrono::milliseconds{5};  // verdicts wait this long for company
  Duration misconfigured_delay = std::chrono::seconds{30};
  Duration misconfigured_delay_max = std::chrono::minutes{5};
  Duration misconfigured_life = std::chrono::hours{24};
  RetryOptions retry;
  BreakerOptions breaker;
  std::vector<Route> routes;
};

// What an operator sees of a running relay.
struct RelayStatus {
  CircuitState circuit = CircuitState::closed;
  Duration next_probe{0};         // until the next probe, when open
  std::size_t held = 0;           // leases
  std::size_t travelling = 0;
  std::size_t in_flight_limit = 0;
  bool store_usable = false;      // the last turn was committed, or merely busy
  std::string store_error;        // why not
  bool stopping = false;
  std::vector<DestinationChange> held_destinations;
};

// Confined to one thread, but for the queue that feeds it.
class Relay {
 public:
  // All references outlive the relay; the publisher is destroyed before it.
  Relay(const RelayOptions& options, OutboxStore& store, Publisher& publisher,
        ReceiptQueue& receipts, const Clock& clock, RelayObserver& observer, std::uint64_t seed);
  ~Relay();

  // Does what can be done now. Returns when it must be called again at the latest; call it earlier
  // when a receipt arrived or hint() was called.
  Time step();

  // The outbox may have new rows: look now, and again shortly, since a hint may come early.
  void hint();

  // Stop leasing once nothing is due (or at once), send what is held, settle, release.
  void stop();
  // Give back everything that is not travelling and lease nothing more: the drain's time is over.
  void abandon();
  // Nothing is held and everything is settled.
  bool drained() const;

  // By an operator.
  void isolate();
  void close_circuit();

  RelayStatus status() const;

 private:
  struct Slot;
  // (private members live in relay.cpp's terms; see there)
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace outbox
