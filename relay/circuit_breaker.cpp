#include "relay/circuit_breaker.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "relay/check.h"

namespace outbox {

namespace {

constexpr std::int64_t kSubWindows = 10;
constexpr Duration kWaitMax = std::chrono::hours{1};

BreakerOptions usable(BreakerOptions options) {
  options.probes = std::max<std::uint32_t>(options.probes, 1);  // none would never close it again
  return options;
}

}  // namespace

CircuitBreaker::CircuitBreaker(BreakerOptions options, std::uint64_t seed)
    : options_(usable(std::move(options))), random_(seed) {}

std::size_t CircuitBreaker::allowance(Time now, std::size_t window) {
  advance(now);
  switch (state_) {
    case CircuitState::closed:
      return window;
    case CircuitState::open:
      return now < break_end() ? 0 : std::min(window, probe_room());
    case CircuitState::half_open:
      return std::min(window, probe_room());
    case CircuitState::isolated:
      return 0;
  }
  return 0;
}

Permit CircuitBreaker::take(Time now) {
  RELAY_CHECK(allowance(now, 1) > 0);
  if (state_ == CircuitState::closed) return Permit{generation_, false, 0};
  if (state_ == CircuitState::open) become(now, CircuitState::half_open, "");
  ++probes_sent_;
  probes_out_.push_back({generation_, probes_sent_, now + options_.probe_timeout});
  return Permit{generation_, true, probes_sent_};
}

void CircuitBreaker::on_success(Time now, Permit permit) {
  advance(now);
  if (!give_back(permit)) return;
  if (permit.probe) {
    probe_succeeded(now);
    return;
  }
  consecutive_.clear();
  answered_ = suspected_until_.has_value();
  ++current(now).successes;
}

void CircuitBreaker::on_neutral(Time now, Permit permit) {
  advance(now);
  if (!give_back(permit)) return;
  consecutive_.clear();
  answered_ = suspected_until_.has_value();
  if (permit.probe) probe_succeeded(now);
}

void CircuitBreaker::on_failure(Time now, Permit permit, bool transport, Duration wait,
                                const std::string& why) {
  advance(now);
  if (!give_back(permit)) return;
  if (permit.probe) {
    open(now, wait, "the probe failed: " + why);
    return;
  }
  ++current(now).failures;
  if (!transport) consecutive_.clear();
  if (transport && options_.consecutive_failures > 0) {
    consecutive_.push_back(now);
    if (consecutive_.size() > options_.consecutive_failures) consecutive_.pop_front();
  }
  std::string reason = why_it_trips(now, why);
  if (!reason.empty()) {
    open(now, wait, std::move(reason));
  } else if (suspected_until_ && !answered_) {
    believe(now, wait, why);
  }
}

void CircuitBreaker::on_cancelled(Time now, Permit permit) {
  advance(now);
  if (!give_back(permit) || !permit.probe) return;
  open_until_ = now;
  become(now, CircuitState::open, "the probe was not sent");
  changes_.back().unsent = true;
}

void CircuitBreaker::tick(Time now) {
  advance(now);
  bool lost = false;
  while (!probes_out_.empty() && probes_out_.front().deadline <= now) {
    lost = lost || probes_out_.front().generation == generation_;
    probes_out_.erase(probes_out_.begin());
  }
  if (lost) open(now, Duration::zero(), "the probe had no result in time");
}

void CircuitBreaker::isolate(Time now, const std::string& why) {
  advance(now);
  if (state_ == CircuitState::isolated) return;
  become(now, CircuitState::isolated, why.empty() ? "by an operator" : why);
}

void CircuitBreaker::close(Time now, const std::string& why) {
  advance(now);
  window_.clear();
  consecutive_.clear();
  breaks_in_a_row_ = 0;
  if (state_ != CircuitState::closed) become(now, CircuitState::closed, why);
}

void CircuitBreaker::suspect(Time now, Duration wait) {
  advance(now);
  suspected_until_ = now + std::min(wait, kWaitMax);
}

void CircuitBreaker::trust() {
  suspected_until_.reset();
  answered_ = false;
}

void CircuitBreaker::retune(Time now, BreakerOptions options) {
  advance(now);
  options_ = usable(std::move(options));
  while (consecutive_.size() > options_.consecutive_failures) consecutive_.pop_front();
  if (state_ == CircuitState::half_open && probes_good_ >= options_.probes) close(now);
}

std::optional<Time> CircuitBreaker::next_event() const {
  const bool probing = state_ == CircuitState::open || state_ == CircuitState::half_open;
  if (!probing) return std::nullopt;
  if (state_ == CircuitState::open && now_ < break_end()) return break_end();
  if (probes_out_.empty()) return std::nullopt;
  return probes_out_.front().deadline;
}

std::optional<CircuitChange> CircuitBreaker::take_change() {
  if (changes_.empty()) return std::nullopt;
  CircuitChange oldest = std::move(changes_.front());
  changes_.pop_front();
  return oldest;
}

bool CircuitBreaker::closed_since(Time since) const {
  if (state_ != CircuitState::closed) return false;
  return !last_closed_ || *last_closed_ < since;
}

void CircuitBreaker::advance(Time now) { now_ = std::max(now_, now); }

// How many more probes may be sent: `probes` succeed together, and no more than that are under way.
std::size_t CircuitBreaker::probe_room() const {
  const std::size_t taken = probes_good_ + probes_out_.size();
  return options_.probes > taken ? options_.probes - taken : 0;
}

// Whether the result counts: an older generation's does not, though its probe is no longer out.
bool CircuitBreaker::give_back(Permit permit) {
  if (!permit.probe) return permit.generation == generation_;
  const auto out =
      std::find_if(probes_out_.begin(), probes_out_.end(),
                   [permit](const Probe& probe) { return probe.number == permit.number; });
  if (out == probes_out_.end()) return false;
  probes_out_.erase(out);
  return permit.generation == generation_;
}

CircuitBreaker::SubWindow& CircuitBreaker::current(Time now) {
  while (!window_.empty() && now - window_.front().started >= options_.sampling_duration) {
    window_.pop_front();
  }
  const Duration length = options_.sampling_duration / kSubWindows;
  if (window_.empty() || now - window_.back().started >= length) window_.push_back({now});
  return window_.back();
}

// Empty if the failures so far are no reason to open.
std::string CircuitBreaker::why_it_trips(Time now, const std::string& why) const {
  const std::size_t in_a_row = consecutive_.size();
  if (options_.consecutive_failures > 0 && in_a_row >= options_.consecutive_failures &&
      now - consecutive_.front() < options_.sampling_duration) {
    return std::to_string(in_a_row) + " publishes in a row failed, the last one: " + why;
  }
  std::uint64_t failures = 0;
  std::uint64_t results = 0;
  for (const SubWindow& part : window_) {
    failures += part.failures;
    results += part.failures + part.successes;
  }
  if (results < options_.minimum_throughput) return "";
  // A division is rounded like the decimal fraction it is compared with; a product would not be.
  if (static_cast<double>(failures) / static_cast<double>(results) < options_.failure_ratio) {
    return "";
  }
  return std::to_string(failures) + " of the last " + std::to_string(results) +
         " publishes failed, the last one: " + why;
}

void CircuitBreaker::probe_succeeded(Time now) {
  ++probes_good_;
  if (probes_good_ >= options_.probes) close(now);
}

void CircuitBreaker::open(Time now, Duration wait, std::string why) {
  open_until_ = now + std::max(break_length(), std::min(wait, kWaitMax));
  ++breaks_in_a_row_;
  become(now, CircuitState::open, std::move(why));
}

// The break is the other relay's: it ends for all of them at once.
void CircuitBreaker::believe(Time now, Duration wait, const std::string& why) {
  open_until_ = now + std::min(wait, kWaitMax);
  become(now, CircuitState::open, "open at another relay, and here " + why);
  changes_.back().believed = true;
}

void CircuitBreaker::become(Time now, CircuitState next, std::string why) {
  CircuitChange change;
  change.from = state_;
  change.to = next;
  change.reason = std::move(why);
  if (next == CircuitState::open) change.next_probe = break_end() - now;
  changes_.push_back(std::move(change));

  state_ = next;
  ++generation_;
  probes_good_ = 0;
  answered_ = false;
  if (next == CircuitState::closed) last_closed_ = now;
}

// Our own break may last longer than the other relay's, which is heard of anew all the time.
Time CircuitBreaker::break_end() const {
  return std::max(open_until_, suspected_until_.value_or(open_until_));
}

// break_max bounds the growth, not a break_duration that is longer by itself.
Duration CircuitBreaker::break_length() {
  const auto base = static_cast<double>(options_.break_duration.count());
  const double limit = std::max(base, static_cast<double>(options_.break_max.count()));
  const double grown = base * std::pow(options_.break_growth, breaks_in_a_row_);
  const double jitter = random_.between(1 - options_.break_jitter, 1 + options_.break_jitter);
  return Duration{std::llround(std::min(grown, limit) * jitter)};
}

}  // namespace outbox
