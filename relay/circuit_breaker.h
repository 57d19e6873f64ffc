// The circuit breaker around one broker endpoint (behaviour: "Circuit breaker"). It does not wrap
// the publisher: it says how many publishes may be under way, so that an open circuit stops
// leasing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

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
  double break_jitter = 0.2;  // +/- share of the break, drawn after the cap
  double break_growth = 1;    // each break in a row is longer by this factor, up to
  Duration break_max = std::chrono::minutes{5};
  std::uint32_t consecutive_failures = 5;             // 0 switches it off
  std::uint32_t probes = 1;                           // all must succeed
  Duration probe_timeout = std::chrono::seconds{10};  // a probe without a result is lost: re-open
  WhileOpen while_open = WhileOpen::suspend;
};

// Leave to publish once. Results of an older generation are dropped.
struct Permit {
  std::uint64_t generation = 0;
  bool probe = false;
  std::uint32_t number = 0;  // which probe of all that were sent
};

// Counts in a window of ten sub-windows, each a tenth of the sampling duration, which start with
// the first result that finds the last one too old, and are dropped when the sampling duration has
// passed since their start. A failure opens the circuit when the window holds enough results and
// the share of failures is reached, or when enough transport failures in a row are younger than the
// sampling duration. A success never opens it.
//
// Confined to one thread. Time never runs backwards between calls.
class CircuitBreaker {
 public:
  CircuitBreaker(BreakerOptions options, std::uint64_t seed);

  // How many publishes may start now beside those under way, at most `window`. Closed: `window`.
  // Open: 0 until the break is over, then the probes. Isolated: 0. Probes that an earlier
  // generation sent take up room until they have a result or have timed out.
  std::size_t allowance(Time now, std::size_t window);

  // Takes leave to publish; requires allowance(now, 1) > 0. The first one after a break half-opens.
  // Each permit is given back by exactly one of the four calls below.
  Permit take(Time now);

  // What became of a permitted publish. Any answer but a failure is a probe's success.
  void on_success(Time now, Permit permit);  // confirmed
  void on_neutral(Time now, Permit permit);  // the broker answered, but not for or against itself
  // `transport` is false when the broker asked to wait, for `wait` (believed up to an hour) or
  // without saying how long. Only the failure that opens the circuit makes the break longer.
  void on_failure(Time now, Permit permit, bool transport, Duration wait, const std::string& why);
  // Never sent: the permit is returned. A probe's leaves the circuit open with its break over, so
  // that the next take() half-opens it again at once.
  void on_cancelled(Time now, Permit permit);

  // A probe that has had its time is lost: re-opens. Call when next_event() has come.
  void tick(Time now);

  // By an operator: holds the circuit until close(); close() forgets the window. `why`: what the
  // operator said, if anything; or why it closes.
  void isolate(Time now, const std::string& why = {});
  void close(Time now, const std::string& why = {});

  // Another relay's circuit is open, for `wait` more, as of now: no probe starts before then, and
  // one failure will be enough to believe it, unless the broker has answered since the first of
  // these calls. trust(): no longer.
  void suspect(Time now, Duration wait);
  void trust();

  // Other thresholds for the results from now on. State, counts and permits stay; the break under
  // way keeps its end. Fewer probes may be those that have succeeded already: then it closes.
  void retune(Time now, BreakerOptions options);

  CircuitState state() const { return state_; }
  // When allowance or state changes by itself: the end of a break, a probe's time-out. The end of a
  // break is told until some call has been made at that time or later, a time-out until tick().
  std::optional<Time> next_event() const;
  // The oldest transition not yet taken, if any: for the observer. Call until it gives nothing.
  std::optional<CircuitChange> take_change();
  // Whether the circuit is Closed and was at every moment since `since`. The outage guard's
  // question.
  bool closed_since(Time since) const;

 private:
  struct SubWindow {
    Time started;
    std::uint64_t successes = 0;
    std::uint64_t failures = 0;
  };
  struct Probe {
    std::uint64_t generation;
    std::uint32_t number;
    Time deadline;
  };

  void advance(Time now);
  std::size_t probe_room() const;
  bool give_back(Permit permit);
  SubWindow& current(Time now);
  std::string why_it_trips(Time now, const std::string& why) const;
  void probe_succeeded(Time now);
  void open(Time now, Duration wait, std::string why);
  void believe(Time now, Duration wait, const std::string& why);
  void become(Time now, CircuitState next, std::string why);
  Time break_end() const;
  Duration break_length();

  BreakerOptions options_;
  Random random_;
  Time now_ = Time::min();  // of the latest call
  CircuitState state_ = CircuitState::closed;
  std::uint64_t generation_ = 1;
  std::deque<SubWindow> window_;
  std::deque<Time> consecutive_;  // transport failures in a row, in completion order
  std::uint32_t breaks_in_a_row_ = 0;
  Time open_until_{};
  std::optional<Time> suspected_until_;  // another relay's circuit is open
  bool answered_ = false;                // by the broker, since that was heard of
  std::vector<Probe> probes_out_;        // of all generations, in the order of their deadlines
  std::uint32_t probes_sent_ = 0;
  std::uint32_t probes_good_ = 0;  // of this generation
  std::optional<Time> last_closed_;
  std::deque<CircuitChange> changes_;
};

}  // namespace outbox
