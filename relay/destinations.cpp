#include "relay/destinations.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace outbox {
namespace {

constexpr std::uint32_t kRememberedAnswers = 20;
constexpr std::uint32_t kAnswerMask = (1u << kRememberedAnswers) - 1;
constexpr int kMostAnswers = kRememberedAnswers / 2 + 1;
constexpr std::size_t kRowsKeptForProbe = 20;

}  // namespace

Gate Destinations::gate(const std::string& destination, Time now) {
  Entry& known = entry(destination);
  if (!known.held) return Gate::open;
  if (now < known.next_probe) return Gate::held;
  known.next_probe = now + options_.probe_interval;
  known.turned_away = 0;
  return Gate::probe;
}

void Destinations::on_confirmed(const std::string& destination, Time now) {
  Entry& known = entry(destination);
  known.last_confirmed = now;
  known.refusals = (known.refusals << 1) & kAnswerMask;
  if (!known.held) return;
  known.held = false;
  known.refusals = 0;
  --held_;
  changes_.push_back({.destination = destination, .reason = {}, .kind = known.kind});
}

void Destinations::on_refusal(const std::string& destination, FailureKind kind,
                              const std::string& reason, Time now) {
  Entry& known = entry(destination);
  known.refusals = ((known.refusals << 1) | 1u) & kAnswerMask;
  if (!options_.hold || known.held || std::popcount(known.refusals) < kMostAnswers) return;
  known.held = true;
  known.kind = kind;
  known.reason = reason;
  known.next_probe = now + options_.probe_interval;
  known.turned_away = 0;
  ++held_;
  changes_.push_back({.destination = destination, .reason = reason, .kind = kind});
}

bool Destinations::is_held(const std::string& destination) const {
  const Entry* known = find(destination);
  return known != nullptr && known->held;
}

std::optional<Time> Destinations::last_confirmed(const std::string& destination) const {
  const Entry* known = find(destination);
  return known == nullptr ? std::nullopt : known->last_confirmed;
}

Duration Destinations::delay_when_held(const std::string& destination, Time now, Random& random) {
  Entry& known = entry(destination);
  if (known.held && known.turned_away++ < kRowsKeptForProbe) {
    return std::max(known.next_probe - now, Duration{0});
  }
  const auto longest = static_cast<double>(options_.held_delay_max.count());
  return Duration{static_cast<Duration::rep>(longest * random.between(0.9, 1.0))};
}

std::vector<DestinationChange> Destinations::take_changes() { return std::exchange(changes_, {}); }

std::vector<DestinationChange> Destinations::held() const {
  std::vector<DestinationChange> all;
  for (const Entry& known : entries_) {
    if (known.held) all.push_back({known.name, known.reason, known.kind});
  }
  return all;
}

Destinations::Entry& Destinations::entry(const std::string& destination) {
  const auto found = index_.find(destination);
  if (found != index_.end()) {
    entries_.splice(entries_.begin(), entries_, found->second);
    return entries_.front();
  }
  if (entries_.size() >= options_.remembered_max) forget_one();
  entries_.push_front({});
  entries_.front().name = destination;
  index_.emplace(destination, entries_.begin());
  return entries_.front();
}

const Destinations::Entry* Destinations::find(const std::string& destination) const {
  const auto found = index_.find(destination);
  return found == index_.end() ? nullptr : &*found->second;
}

void Destinations::forget_one() {
  const Entry& last = entries_.back();
  if (last.held) {
    --held_;
    changes_.push_back({.destination = last.name, .reason = {}, .kind = last.kind});
  }
  index_.erase(last.name);
  entries_.pop_back();
}

}  // namespace outbox
