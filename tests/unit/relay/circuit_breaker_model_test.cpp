// The breaker against a slow model of it, which keeps every result and starts from the first one
// each time it is asked.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "relay/circuit_breaker.h"
#include "relay/random.h"

namespace outbox {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

enum class Result { success, neutral, transport, throttled, cancelled };

struct Entry {
  Time at;
  Result result;
};

// The results since the circuit closed, in the order of completion.
class History {
 public:
  explicit History(const BreakerOptions& options) : options_(options) {}

  void forget() { entries_.clear(); }
  void add(Time at, Result result) { entries_.push_back({at, result}); }
  bool opens(Time now) const { return ratio_reached(now) || run_reached(now); }

 private:
  bool ratio_reached(Time now) const {
    std::uint64_t failures = 0;
    std::uint64_t results = 0;
    std::optional<Time> started;
    for (const Entry& entry : entries_) {
      if (entry.result == Result::neutral) continue;
      if (!started || (entry.at - *started) * 10 >= options_.sampling_duration) started = entry.at;
      if (*started + options_.sampling_duration <= now) continue;
      ++results;
      if (entry.result != Result::success) ++failures;
    }
    return results >= options_.minimum_throughput &&
           static_cast<double>(failures) >=
               options_.failure_ratio * static_cast<double>(results) - 1e-9;
  }

  bool run_reached(Time now) const {
    if (options_.consecutive_failures == 0) return false;
    std::uint32_t run = 0;
    for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {
      if (entry->result != Result::transport) break;
      if (entry->at + options_.sampling_duration <= now) break;
      ++run;
    }
    return run >= options_.consecutive_failures;
  }

  const BreakerOptions& options_;
  std::vector<Entry> entries_;
};

struct Travelling {
  Permit permit;  // the breaker's
  int epoch;      // the model's count of transitions when it was sent
  bool probe;
  Time deadline;
  bool written_off = false;  // a probe whose time was up
};

class Model {
 public:
  explicit Model(const BreakerOptions& options) : options_(options), history_(options) {}

  std::size_t allowance(Time now, std::size_t window) const {
    if (state_ == CircuitState::closed) return window;
    if (state_ == CircuitState::isolated) return 0;
    if (state_ == CircuitState::open && now < open_until_) return 0;
    std::size_t taken = state_ == CircuitState::half_open ? good_ : 0;
    for (const Travelling& one : travelling) taken += one.probe && !one.written_off ? 1 : 0;
    return taken >= options_.probes ? 0 : std::min<std::size_t>(window, options_.probes - taken);
  }

  void sent(Time now, Permit permit) {
    const bool probe = state_ != CircuitState::closed;
    if (state_ == CircuitState::open) enter(CircuitState::half_open);
    travelling.push_back({permit, epoch_, probe, now + options_.probe_timeout});
  }

  void reported(Time now, const Travelling& one, Result result, Duration wait) {
    if (one.epoch != epoch_ || one.written_off) return;
    const bool failed = result == Result::transport || result == Result::throttled;
    if (one.probe) {
      if (result == Result::cancelled) {
        open_until_ = now;
        enter(CircuitState::open);
      } else if (failed) {
        open(now, wait);
      } else if (++good_ == options_.probes) {
        close();
      }
      return;
    }
    if (result == Result::cancelled) return;
    history_.add(now, result);
    if (failed && history_.opens(now)) open(now, wait);
  }

  void tick(Time now) {
    bool lost = false;
    for (Travelling& one : travelling) {
      if (!one.probe || one.written_off || now < one.deadline) continue;
      one.written_off = true;
      lost = lost || one.epoch == epoch_;
    }
    if (lost) open(now, Duration{0});
  }

  void isolate() {
    if (state_ != CircuitState::isolated) enter(CircuitState::isolated);
  }
  void close() {
    history_.forget();
    next_break_ = options_.break_duration;
    if (state_ != CircuitState::closed) enter(CircuitState::closed);
  }

  CircuitState state() const { return state_; }
  int transitions() const { return epoch_; }

  std::vector<Travelling> travelling;

 private:
  void open(Time now, Duration wait) {
    open_until_ = now + std::max(next_break_, std::min<Duration>(wait, seconds{3600}));
    next_break_ = std::min(next_break_ * static_cast<int>(options_.break_growth),
                           std::max(options_.break_max, options_.break_duration));
    enter(CircuitState::open);
  }
  void enter(CircuitState next) {
    state_ = next;
    ++epoch_;
    good_ = 0;
  }

  const BreakerOptions& options_;
  History history_;
  CircuitState state_ = CircuitState::closed;
  int epoch_ = 0;
  std::size_t good_ = 0;
  Time open_until_{};
  Duration next_break_ = options_.break_duration;
};

BreakerOptions drawn_options(Random& random) {
  BreakerOptions options;
  const double ratios[] = {0.1, 0.25, 0.3, 0.5, 0.9, 1};
  options.failure_ratio = ratios[random.below(6)];
  options.minimum_throughput = static_cast<std::uint32_t>(1 + random.below(12));
  options.consecutive_failures = static_cast<std::uint32_t>(random.below(7));
  options.probes = static_cast<std::uint32_t>(1 + random.below(3));
  options.break_jitter = 0;
  options.break_growth = static_cast<double>(1 + random.below(2));
  options.break_max = seconds{60};
  return options;
}

// Mostly no time at all or a part of a sub-window, and often a boundary to the nanosecond.
Duration drawn_step(Random& random) {
  const Duration steps[] = {Duration{0}, Duration{0}, seconds{1},  milliseconds{500},
                            seconds{3},  seconds{3},  seconds{15}, seconds{10},
                            seconds{27}, seconds{30}, seconds{30}};
  const Duration step = random.chance(0.6) ? Duration{0} : steps[random.below(11)];
  if (step > Duration{1} && random.chance(0.3)) return step - Duration{1};
  return step;
}

Result drawn_result(Random& random, double failing) {
  if (random.chance(failing)) return random.chance(0.8) ? Result::transport : Result::throttled;
  const Result others[] = {Result::success, Result::success, Result::success, Result::neutral,
                           Result::cancelled};
  return others[random.below(5)];
}

void report(CircuitBreaker& breaker, Time now, Permit permit, Result result, Duration wait) {
  switch (result) {
    case Result::success:
      breaker.on_success(now, permit);
      return;
    case Result::neutral:
      breaker.on_neutral(now, permit);
      return;
    case Result::transport:
      breaker.on_failure(now, permit, true, wait, "reset");
      return;
    case Result::throttled:
      breaker.on_failure(now, permit, false, wait, "429");
      return;
    case Result::cancelled:
      breaker.on_cancelled(now, permit);
      return;
  }
}

// Both do the same for a while; what they say must never differ.
class Duel {
 public:
  explicit Duel(std::uint64_t seed)
      : random_(seed),
        options_(drawn_options(random_)),
        failing_(random_.between(0.05, 0.95)),
        breaker_(options_, seed),
        model_(options_) {}

  void play(int moves) {
    for (int move = 0; move < moves; ++move) {
      now_ += drawn_step(random_);
      move_once();
      compare(move);
      if (differs) return;
    }
  }

  bool differs = false;
  int opened = 0;
  int half_opened = 0;
  int closed = 0;

 private:
  void move_once() {
    const std::uint64_t kind = random_.below(100);
    if (kind < 45) {
      if (breaker_.allowance(now_, 1) > 0) model_.sent(now_, breaker_.take(now_));
    } else if (kind < 92) {
      report_one();
    } else if (kind < 98) {
      breaker_.tick(now_);
      model_.tick(now_);
    } else if (kind < 99) {
      breaker_.isolate(now_);
      model_.isolate();
    } else {
      breaker_.close(now_);
      model_.close();
    }
  }

  void report_one() {
    if (model_.travelling.empty()) return;
    const auto at = static_cast<std::ptrdiff_t>(random_.below(model_.travelling.size()));
    const Travelling one = model_.travelling[static_cast<std::size_t>(at)];
    model_.travelling.erase(model_.travelling.begin() + at);
    const Result result = drawn_result(random_, failing_);
    const Duration wait = random_.chance(0.1) ? seconds{random_.below(120)} : Duration{0};
    report(breaker_, now_, one.permit, result, wait);
    model_.reported(now_, one, result, wait);
  }

  void compare(int move) {
    while (const auto change = breaker_.take_change()) {
      ++changes_;
      opened += change->to == CircuitState::open ? 1 : 0;
      half_opened += change->to == CircuitState::half_open ? 1 : 0;
      closed += change->to == CircuitState::closed ? 1 : 0;
    }
    differs = breaker_.state() != model_.state() || changes_ != model_.transitions() ||
              breaker_.allowance(now_, 256) != model_.allowance(now_, 256);
    INFO("move ", move, ": ", name_of(breaker_.state()), " for ", name_of(model_.state()));
    CHECK_FALSE(differs);
    check_next_event();
  }

  // Nothing changes by itself before the event that was announced.
  void check_next_event() {
    const std::optional<Time> event = breaker_.next_event();
    if (!event || *event <= now_) return;
    CircuitBreaker later = breaker_;
    const Time before = *event - Duration{1};
    later.tick(before);
    CHECK(later.state() == breaker_.state());
    CHECK(later.allowance(before, 256) == model_.allowance(now_, 256));
    later.tick(*event);
    const bool changed = later.state() != breaker_.state() ||
                         later.allowance(*event, 256) != model_.allowance(now_, 256) ||
                         later.next_event() != event;
    CHECK(changed);
  }

  Random random_;
  const BreakerOptions options_;
  const double failing_;
  CircuitBreaker breaker_;
  Model model_;
  Time now_{seconds{1000}};
  int changes_ = 0;
};

TEST_CASE("the breaker never differs from a model that counts every result anew") {
  int opened = 0;
  int half_opened = 0;
  int closed = 0;
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    CAPTURE(seed);
    Duel duel(seed);
    duel.play(500);
    REQUIRE_FALSE(duel.differs);
    opened += duel.opened;
    half_opened += duel.half_opened;
    closed += duel.closed;
  }
  // The sequences went everywhere, and not only by the operator's hand.
  CHECK(opened > 5000);
  CHECK(half_opened > 2000);
  CHECK(closed > 3000);
}

}  // namespace
}  // namespace outbox
