// The circuit breaker around one broker endpoint (behaviour: "Circuit breaker"). It does not wrap
// the publisher: it says how many publishes may be under way, so that an open circuit stops leasing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "relay/clock.h"
#include "relay/observer.h"
#include "relay/random.h"

namespace outbox {

enum class WhileOpen {
  suspend,  // nothing is leased while the circuit is open
  charge,   // rows are leased and fail at once, as ADR-087 has it
};

struct BreakerOptions {
  double failure_ratio = 0.5;
  std::uint32_t minimum_throughput = 10;
  Duration sampling_duration = std::chrono::seconds{30};
  Duration break_duration = std::chrono::seconds{15};
  double break_jitter = 0.2;    // +/- share of break_duration
  double break_growth = 1;      // each break in a row is longer by this factor, up to
  Duration break_max = std::chrono::minutes{5};
  std::uint32_t consecutive_failures = 5;  // 0 switches it off
  std::uint32_t probes = 1;                // all must succeed
  Duration probe_timeout = std::chrono::seconds{10};  // a probe without a result is lost: re-open
  WhileOpen while_open = WhileOpen::suspend;
};

// Leave to publish once. Results of an older generation are dropped.
struct Permit {
  std::uint64_t generation = 0;
  bool probe = false;
};

// Confined to one thread. Time never runs backwards between calls.
class CircuitBreaker {
 public:
  CircuitBreaker(BreakerOptions options, std::uint64_t seed);

  // How many publishes may start now beside those under way, at most `window`. Closed: `window`.
  // Open: 0 until the break is over, then the probes. Isolated: 0.
  std::size_t allowance(Time now, std::size_t window);

  // Takes leave to publish; requires allowance(now, 1) > 0. The first one after a break half-opens.
  Permit take(Time now);

  // What became of a permitted publish.
  void on_success(Time now, Permit permit);    // confirmed
  void on_neutral(Time now, Permit permit);    // the broker answered, but not for or against itself
  void on_failure(Time now, Permit permit, bool transport, Duration wait, const std::string& why);
  void on_cancelled(Time now, Permit permit);  // never sent: the permit is returned

  // A probe that has had its time is lost: re-opens. Call when next_event() has come.
  void tick(Time now);

  // By an operator: holds the circuit until close(); close() forgets the window.
  void isolate(Time now);
  void close(Time now);

  CircuitState state() const { return state_; }
  // When allowance or state changes by itself: the end of a break, a probe's time-out.
  std::optional<Time> next_event() const;
  // The last transition since the previous call, if any: for the observer.
  std::optional<CircuitChange> take_change();
  // When the circuit last left Closed; absent if it never did.
  std::optional<Time> last_opened() const { return last_opened_; }

 private:
  struct SubWindow {
    Time started;
    std::uint32_t successes = 0;
    std::uint32_t failures = 0;
  };

  SubWindow& current(Time now);
  void drop_old(Time now);
  bool trips(Time now);
  void open(Time now, Duration wait, std::string why);
  void settle_probe(Time now);
  void become(Time now, CircuitState next, std::string why);
  Duration break_length(Duration wait);

  BreakerOptions options_;
  Random random_;
  CircuitState state_ = CircuitState::closed;
  std::uint64_t generation_ = 1;
  std::deque<SubWindow> window_;
  std::deque<Time> consecutive_;  // transport failures in a row, in completion order
  std::uint32_t breaks_in_a_row_ = 0;
  Time open_until_{};
  std::uint32_t probes_out_ = 0;
  std::uint32_t probes_good_ = 0;
  Time probe_deadline_{};
  std::optional<Time> last_opened_;
  std::vector<CircuitChange> changes_;
};

}  // namespace outbox
