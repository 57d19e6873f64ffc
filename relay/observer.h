// What the relay tells about its work. Metrics, logs and health are observers; the relay neither
// logs nor counts by itself. All calls come from the relay's thread, between two waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "relay/clock.h"
#include "relay/message.h"
#include "relay/outbox_store.h"
#include "relay/publisher.h"

namespace outbox {

enum class CircuitState { closed, open, half_open, isolated };

const char* name_of(CircuitState state);

// One turn at the store.
struct TurnReport {
  TurnStatus status = TurnStatus::failed;
  std::string_view error;
  Duration took{0};
  std::size_t settled = 0;
  std::size_t leased = 0;
  std::size_t fenced = 0;
  std::size_t isolated = 0;
  std::string_view isolated_error;
  std::size_t taken_over = 0;
  std::size_t held_after = 0;  // leases that this relay holds now
  bool paused = false;         // by an operator; known after a committed turn only
};

// One publish that came to an end.
struct Delivery {
  const Message* message = nullptr;
  std::string_view destination;
  Outcome outcome = Outcome::cancelled;
  std::string_view reason;
  bool sent = false;
  bool redelivered = false;  // it went out marked as a possible duplicate
  bool will_retry = false;   // the row is due again later
  Duration took{0};
  Duration lag{0};  // from the event to its confirmation
};

// Messages that an open circuit turned away, in one step.
struct ShortCircuit {
  struct Count {
    std::string event_type;
    std::size_t messages = 0;
  };
  std::vector<Count> counts;
  std::size_t total = 0;
};

// A row that will not be tried again.
struct Burial {
  std::string_view id;
  std::string_view event_type;
  DeadReason reason = DeadReason::permanent;
  std::uint32_t attempts = 0;  // failed attempts, this one included
  std::string_view error;
};

struct CircuitChange {
  CircuitState from = CircuitState::closed;
  CircuitState to = CircuitState::closed;
  std::string reason;      // why, if there is more to say than the states
  Duration next_probe{0};  // until the next probe, when open
  bool believed = false;   // opened because another relay's circuit was open already
  bool unsent = false;     // opened again because the probe came back: its break is over
};

// A destination that is held, or no longer (`reason` empty).
struct DestinationChange {
  std::string destination;
  std::string reason;
  FailureKind kind = FailureKind::none;
};

class RelayObserver {
 public:
  virtual ~RelayObserver() = default;
  virtual void on_turn(const TurnReport&) {}
  virtual void on_delivery(const Delivery&) {}
  virtual void on_short_circuit(const ShortCircuit&) {}
  virtual void on_burial(const Burial&) {}
  virtual void on_circuit(const CircuitChange&) {}
  virtual void on_probe() {}  // a probe is about to be sent
  // Another relay probes, or waits to: ours is not before then.
  virtual void on_probe_postponed(Duration) {}
  virtual void on_destination(const DestinationChange&) {}
  virtual void on_in_flight_limit(std::size_t) {}
};

}  // namespace outbox
