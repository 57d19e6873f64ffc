// Whether the program is alive, started and ready: what is known, and what follows from it.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "relay/clock.h"
#include "relay/observer.h"

namespace outbox {

// What the program knows of itself at one moment. Most of it comes from the relay's StatusBoard.
struct Health {
  bool set_up = false;    // the configuration is valid and all listeners are up
  bool started = false;   // the relay's loop came round at least once
  bool finished = false;  // the loop has ended in good order
  Duration loop_age{0};   // since the loop last came round, or since it was to begin
  Duration stall_timeout = std::chrono::minutes{2};

  bool store_usable = false;
  std::string store_error;  // why not: no secrets, anybody may read it
  bool stopping = false;
  bool paused = false;

  CircuitState circuit = CircuitState::closed;
  Duration next_probe{0};  // until the next probe, when the circuit is open
  std::vector<DestinationChange> held_destinations;
};

// Implemented by the program. Called for each request from any thread; never blocks, never throws.
class HealthSource {
 public:
  virtual ~HealthSource() = default;
  virtual Health health() const = 0;
};

// What a probe is told.
struct ProbeAnswer {
  bool ok = false;
  std::string state;   // one word
  std::string reason;  // a sentence, empty when ok
};

// Alive: only a stalled loop is not. No broker, circuit, database, lag or pause makes a restart
// worth while.
ProbeAnswer liveness_of(const Health& health);

// Ready: the outbox is usable and the relay is not draining. Broker, circuit and pause don't count.
ProbeAnswer readiness_of(const Health& health);

// Started up: the configuration is valid and the listeners are up.
ProbeAnswer startup_of(const Health& health);

// The answer with all that is known around it, as a JSON object and a line feed.
std::string to_json(const ProbeAnswer& answer, const Health& health);

}  // namespace outbox
