#include "relay/relay.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "relay/check.h"

namespace outbox {
namespace {

constexpr std::size_t kIncidentsRemembered = 64;
constexpr Duration kFullAgain = std::chrono::milliseconds{20};
constexpr Duration kHintEcho = std::chrono::milliseconds{12};  // a hint may come before its commit
constexpr Duration kLookAgainMin = std::chrono::microseconds{200};
constexpr Duration kCourtesyMax = std::chrono::milliseconds{500};
constexpr std::uint64_t kPatient = 4;  // verdicts

DestinationOptions destination_options(const RelayOptions& options) {
  DestinationOptions result;
  result.hold = options.hold_destinations;
  result.held_delay_max = options.misconfigured_delay_max;
  return result;
}

JudgeOptions judge_options(const RelayOptions& options) {
  return JudgeOptions{.retry = options.retry,
                      .hold_destinations = options.hold_destinations,
                      .charge_every_failure = options.charge_every_failure,
                      .misconfigured_delay = options.misconfigured_delay,
                      .misconfigured_delay_max = options.misconfigured_delay_max,
                      .misconfigured_life = options.misconfigured_life,
                      .payload_max = options.payload_max};
}

}  // namespace

Relay::Relay(const RelayOptions& options, OutboxStore& store, Publisher& publisher,
             ReceiptQueue& receipts, const Clock& clock, RelayObserver& observer,
             std::uint64_t seed)
    : options_(options),
      router_(options.routes),
      store_(store),
      publisher_(publisher),
      receipts_(receipts),
      clock_(clock),
      observer_(observer),
      random_(seed),
      breaker_(options.breaker, random_.next()),
      destinations_(destination_options(options)),
      ramp_(options.in_flight_max),
      judge_(judge_options(options), destinations_, breaker_, random_),
      window_(options.ordering == Ordering::key) {}

Time Relay::step() {
  Time now = clock_.now();
  take_over_tuning(now);
  drain_receipts(now);
  breaker_.tick(now);
  notice_changes(now);
  shed(now);
  if (turn_is_due(now)) {
    take_turn(now);
    now = clock_.now();
    shed(now);
  }
  submit(now);
  shed(now);
  notice_changes(now);
  return next_wake(now);
}

void Relay::retune(RelayTuning tuning) { new_tuning_ = std::move(tuning); }

void Relay::take_over_tuning(Time now) {
  if (!new_tuning_) return;
  RelayTuning tuning = *std::exchange(new_tuning_, std::nullopt);
  options_.batch_size = std::clamp<std::size_t>(tuning.batch_size, 1, options_.in_flight_max);
  options_.poll_interval = tuning.poll_interval;
  options_.retry = std::move(tuning.retry);
  tuning.breaker.probe_timeout = options_.breaker.probe_timeout;
  options_.breaker = tuning.breaker;
  judge_.retune(options_.retry);
  breaker_.retune(now, options_.breaker);
  // What was planned by a longer interval need not be waited for.
  next_look_ = std::min(next_look_, now + options_.poll_interval);
  probe_not_before_ = std::min(probe_not_before_, now + options_.poll_interval);
}

void Relay::hint() {
  look_now_ = true;
  hinted_until_ = clock_.now() + kHintEcho;
  look_again_after_ = kLookAgainMin;
}

void Relay::stop() {
  // A store that was unusable is asked once more: what it says then is the last word.
  if (!stopping_ && last_turn_ == TurnStatus::unusable) turn_not_before_ = Time{};
  stopping_ = true;
  look_now_ = true;
  nothing_due_ = !options_.drain_on_stop;
}

void Relay::abandon() {
  if (abandoned_) return;
  stop();
  abandoned_ = true;
  nothing_due_ = true;
  publisher_.recall();
  release_waiting();
}

bool Relay::drained() const {
  if (!stopping_ || holding() > 0) return false;
  if (store_gave_up_) return true;
  // An outbox that an operator holds is not drained any further: what is due stays for later.
  const bool withheld = paused_ || breaker_.state() == CircuitState::isolated;
  return (nothing_due_ || withheld) && !pending_;
}

RelayStatus Relay::status() const {
  RelayStatus status;
  status.circuit = breaker_.state();
  if (status.circuit == CircuitState::open && breaker_.next_event()) {
    status.next_probe = std::max(*breaker_.next_event() - clock_.now(), Duration{0});
  }
  status.held = holding();
  status.travelling = window_.travelling();
  status.in_flight_limit = ramp_.limit();
  status.store_usable = last_turn_ == TurnStatus::committed || last_turn_ == TurnStatus::busy;
  status.store_error = store_error_;
  status.stopping = stopping_;
  status.paused = paused_;
  status.held_destinations = destinations_.held();
  return status;
}

// ---- Receipts ---------------------------------------------------------------------------------

void Relay::drain_receipts(Time now) {
  receipts_.take(drained_receipts_);
  if (!drained_receipts_.empty()) submit_not_before_ = Time{};
  for (const Receipt& receipt : drained_receipts_) take_receipt(receipt, now);
}

void Relay::take_receipt(const Receipt& receipt, Time now) {
  Held* held = window_.by_ticket(receipt.ticket);
  RELAY_CHECK(held != nullptr);
  tell_breaker(*held, receipt, now);
  tell_destination(*held, receipt, now);
  if (receipt.outcome == Outcome::cancelled) {
    const bool may_go_again = held->era == era_ && !abandoned_;
    window_.come_back(*held);
    if (!may_go_again) conclude(*held, Judge::released(held->message));
    return;
  }
  Settlement settlement = judge_.judge(*held, receipt, now);
  tell_observer(*held, receipt, settlement, now);
  conclude(*held, std::move(settlement));
}

void Relay::tell_breaker(const Held& held, const Receipt& receipt, Time now) {
  switch (receipt.outcome) {
    case Outcome::confirmed:
      breaker_.on_success(now, held.permit);
      ramp_.on_confirmed();
      return;
    case Outcome::transport:
    case Outcome::throttled: {
      ramp_.on_failed();
      // However many rows one lost connection carried, it is one failure; but a probe's own result
      // is always news.
      if (is_known_incident(receipt.incident) && !held.permit.probe) return;
      const bool transport = receipt.outcome == Outcome::transport;
      breaker_.on_failure(now, held.permit, transport, receipt.wait, receipt.reason);
      if (!transport && !options_.charge_every_failure) {
        if (receipt.wait > Duration{0}) publisher_.recall();
        throttled_until_ = std::max(throttled_until_, now + receipt.wait);
      }
      return;
    }
    case Outcome::misconfigured:
    case Outcome::refused:
    case Outcome::conflict:
      if (!receipt.sent) {
        breaker_.on_cancelled(now, held.permit);
      } else if (options_.charge_every_failure) {
        breaker_.on_failure(now, held.permit, false, Duration{0}, receipt.reason);
      } else {
        breaker_.on_neutral(now, held.permit);
      }
      return;
    case Outcome::cancelled:
      breaker_.on_cancelled(now, held.permit);
      return;
  }
}

// Remembers the incident, and tells whether it was known before.
bool Relay::is_known_incident(std::uint64_t incident) {
  if (incident == 0) return false;
  if (std::find(incidents_.begin(), incidents_.end(), incident) != incidents_.end()) return true;
  incidents_.push_back(incident);
  if (incidents_.size() > kIncidentsRemembered) incidents_.pop_front();
  return false;
}

void Relay::tell_destination(const Held& held, const Receipt& receipt, Time now) {
  switch (receipt.outcome) {
    case Outcome::confirmed:
      destinations_.on_confirmed(held.destination, now);
      return;
    case Outcome::misconfigured:
      destinations_.on_refusal(held.destination, FailureKind::misconfigured, receipt.reason, now);
      return;
    case Outcome::refused:
      if (!receipt.sent) return;
      destinations_.on_refusal(held.destination, FailureKind::refused, receipt.reason, now);
      return;
    case Outcome::transport:
    case Outcome::throttled:
    case Outcome::conflict:
    case Outcome::cancelled:
      return;
  }
}

void Relay::tell_observer(const Held& held, const Receipt& receipt, const Settlement& settlement,
                          Time now) {
  Delivery delivery;
  delivery.message = &held.message;
  delivery.destination = held.destination;
  delivery.outcome = receipt.outcome;
  delivery.reason = receipt.reason;
  delivery.sent = receipt.sent;
  delivery.redelivered = held.redelivered;
  delivery.will_retry = settlement.verdict == Verdict::retry || settlement.verdict == Verdict::held;
  delivery.took = receipt.took;
  delivery.lag = held.message.age + (now - held.leased_at);
  observer_.on_delivery(delivery);
}

// ---- Rows that are not sent -------------------------------------------------------------------

// Gives up what must not be sent: rows whose leases may have ended, rows that an open circuit, a
// throttling broker or an operator's pause holds back.
void Relay::shed(Time now) {
  if (trust_until_ && now >= *trust_until_) end_era();
  if (window_.ready() == 0) return;
  if (paused_) {
    release_waiting();
  } else if (breaker_.state() != CircuitState::closed) {
    if (breaker_.allowance(now, 1) == 0) short_circuit_waiting();
  } else if (now < throttled_until_) {
    release_waiting();
  }
}

// The leases may have ended: what does not travel is given back, and what travels and was not sent
// is not sent again.
void Relay::end_era() {
  ++era_;
  trust_until_.reset();
  publisher_.recall();
  release_waiting();
}

void Relay::release_waiting() {
  for (const auto& held : window_.remove_waiting()) {
    add_verdict(Judge::released(held->message), held->message);
  }
}

// The rows that stood first in line are turned away by the open circuit, and charged; those behind
// them in their keys are given back as they were.
void Relay::short_circuit_waiting() {
  ShortCircuit report;
  while (Held* held = window_.next_ready()) {
    const std::string& type = held->message.event_type;
    auto count = std::find_if(report.counts.begin(), report.counts.end(),
                              [&](const auto& entry) { return entry.event_type == type; });
    if (count == report.counts.end()) count = report.counts.insert(count, {type, 0});
    ++count->messages;
    ++report.total;
    auto removed = window_.remove_with_followers(*held);
    add_verdict(judge_.short_circuited(*removed.front()), removed.front()->message);
    removed.erase(removed.begin());
    conclude_followers(std::move(removed));
  }
  if (report.total > 0) observer_.on_short_circuit(report);
}

// A row is decided. The row behind it in its key goes next, unless it has to wait for this one.
void Relay::conclude(Held& held, Settlement settlement) {
  if (next_may_go(settlement)) {
    const auto removed = window_.remove(held);
    add_verdict(std::move(settlement), removed->message);
    return;
  }
  auto removed = window_.remove_with_followers(held);
  add_verdict(std::move(settlement), removed.front()->message);
  removed.erase(removed.begin());
  conclude_followers(std::move(removed));
}

void Relay::conclude_followers(std::vector<std::unique_ptr<Held>> followers) {
  for (const auto& held : followers) add_verdict(Judge::released(held->message), held->message);
}

bool Relay::next_may_go(const Settlement& settlement) const {
  return settlement.verdict == Verdict::delivered ||
         (settlement.verdict == Verdict::dead && !options_.dead_blocks_key);
}

void Relay::add_verdict(Settlement settlement, const Message& message) {
  const bool keyed = options_.ordering == Ordering::key && message.ordering_key.has_value();
  if (keyed && !next_may_go(settlement)) waiting_keys_.insert(*message.ordering_key);
  if (verdicts_.empty()) oldest_verdict_ = clock_.now();
  if (settlement.verdict == Verdict::dead) {
    graves_.push_back(
        {settlement.dead_reason,
         BuriedRow{message.id, message.event_type, message.history.retry_count + settlement.charge,
                   settlement.reason}});
  }
  verdicts_.push_back(std::move(settlement));
}

// ---- Submitting -------------------------------------------------------------------------------

void Relay::submit(Time now) {
  if (now < submit_not_before_ || !trust_until_) return;
  if (last_turn_ == TurnStatus::unusable) return;
  gather(now);
  if (publications_.empty()) return;
  const std::size_t taken = publisher_.submit(publications_);
  RELAY_CHECK(taken <= publications_.size());
  if (taken < publications_.size()) take_back(taken, now);
}

// Picks the rows that may start now, each with a permit, oldest first. A publish must not start so
// late that it could end after the lease (P7).
void Relay::gather(Time now) {
  publications_.clear();
  const Time start_by = *trust_until_ - options_.publish_timeout - options_.lease_term / 10;
  if (now > start_by) return;
  while (Held* held = window_.next_ready()) {
    if (!prepare(*held, now)) continue;
    if (window_.travelling() >= ramp_.limit() || breaker_.allowance(now, 1) == 0) return;
    if (!probe_is_ours(now)) return;
    const Permit permit = breaker_.take(now);
    if (permit.probe) observer_.on_probe();
    const RowHistory& history = held->message.history;
    held->redelivered = history.outcome_unknown;
    publications_.push_back({.ticket = next_ticket_++,
                             .message = &held->message,
                             .destination = held->destination,
                             .attempt = history.retry_count + 1,
                             .redelivered = held->redelivered,
                             .start_by = start_by});
    window_.travel(publications_.back().ticket, permit);
  }
}

// Whether the row may be sent now; if not, it was decided.
bool Relay::prepare(Held& held, Time now) {
  if (auto unsendable = judge_.unsendable(held.message)) {
    conclude(held, std::move(*unsendable));
    return false;
  }
  Routed routed = router_.route(held.message);
  if (!routed.error.empty()) {
    Settlement settlement = judge_.unroutable(held, routed.error);
    Receipt unsent;
    unsent.outcome = Outcome::misconfigured;
    unsent.reason = routed.error;
    tell_observer(held, unsent, settlement, now);
    conclude(held, std::move(settlement));
    return false;
  }
  held.destination = std::move(routed.destination);
  if (destinations_.gate(held.destination, now) == Gate::held) {
    conclude(held, judge_.turned_away(held, now));
    return false;
  }
  return true;
}

// The publisher took a prefix only: the others stay ready, in their order.
void Relay::take_back(std::size_t taken, Time now) {
  for (std::size_t i = publications_.size(); i > taken; --i) {
    Held* held = window_.by_ticket(publications_[i - 1].ticket);
    breaker_.on_cancelled(now, held->permit);
    window_.come_back(*held);
  }
  submit_not_before_ = now + kFullAgain;
}

// ---- Scheduling -------------------------------------------------------------------------------

// Tells the observer what has changed, and acts on a broker or a destination that is back: what
// waited for it becomes due at once.
void Relay::notice_changes(Time now) {
  bool recovered = false;
  while (auto change = breaker_.take_change()) {
    recovered = recovered || change->to == CircuitState::closed;
    notice_circuit(*change);
  }
  for (const DestinationChange& change : destinations_.take_changes()) {
    recovered = recovered || change.reason.empty();
    observer_.on_destination(change);
  }
  if (recovered) recovered_ = kAllSettled;
  if (recovered) look_now_ = true;
  const bool over = breaker_.state() == CircuitState::open && breaker_.allowance(now, 1) > 0;
  if (over && !break_noticed_) {
    look_now_ = true;
    probe_not_before_ = now + probe_courtesy();
  }
  break_noticed_ = over;
  if (told_limit_ != ramp_.limit()) {
    told_limit_ = ramp_.limit();
    observer_.on_in_flight_limit(told_limit_);
  }
}

void Relay::notice_circuit(const CircuitChange& change) {
  break_noticed_ = false;
  probe_not_before_ = Time{};
  if (change.to != CircuitState::half_open && !change.unsent) probe_ours_until_ = Time{};
  if (change.from == CircuitState::closed) publisher_.recall();
  if (change.to == CircuitState::closed && options_.ramp_after_open) ramp_.restart();
  spread(change);
  observer_.on_circuit(change);
}

// What the other relays should know. What is not told yet is overtaken.
void Relay::spread(const CircuitChange& change) {
  if (!verdict_) return;
  if (change.to == CircuitState::open && !change.believed && !change.unsent) {
    const bool probed = change.from == CircuitState::half_open && verdict_->open;
    news_ = {CircuitNews::Kind::opened, {}, change.reason, probed ? verdict_->number : 0};
    news_open_until_ = clock_.now() + change.next_probe;
  } else if (change.to == CircuitState::closed) {
    news_.reset();
    breaker_.trust();
    if (verdict_->open) news_ = {CircuitNews::Kind::closed, {}, {}, verdict_->number};
  }
}

// While a verdict stands, one relay probes for all.
bool Relay::probe_is_ours(Time now) const {
  if (breaker_.state() == CircuitState::closed) return true;
  return now < probe_ours_until_ || !verdict_ || !verdict_->open;
}

// Of the relays that would probe, those go first whose probe has failed the longest ago, and no two
// at the same moment: else one that alone is cut off could be the one that probes, each time.
Duration Relay::probe_courtesy() {
  if (!verdict_ || !verdict_->open) return Duration{0};
  const std::uint64_t since = our_verdict_ == 0 ? kPatient : verdict_->number - our_verdict_;
  const double most = std::ldexp(1, -static_cast<int>(std::min(since, kPatient)));
  const double share = random_.between(since < kPatient ? most / 2 : 0, most);
  const Duration longest = std::min(kCourtesyMax, options_.breaker.break_duration / 10);
  return Duration{std::llround(static_cast<double>(longest.count()) * share)};
}

Time Relay::next_wake(Time now) {
  Time turn_at = next_look_;
  if (news_ || pending_ || verdicts_.size() >= options_.batch_size || wants_to_look(now))
    turn_at = now;
  if (!verdicts_.empty()) {
    turn_at = std::min(turn_at, stopping_ ? now : oldest_verdict_ + options_.settle_wait);
  }
  if (holding() > 0) turn_at = std::min(turn_at, renewed_at_ + options_.lease_term / 3);
  Time next = std::max(turn_at, turn_not_before_);
  if (trust_until_) next = std::min(next, *trust_until_);
  const std::optional<Time> event = breaker_.next_event();
  if (event && *event > now) next = std::min(next, *event);
  if (breaker_.state() == CircuitState::open && now < probe_not_before_)
    next = std::min(next, probe_not_before_);
  if (now < throttled_until_) next = std::min(next, throttled_until_);
  if (now < submit_not_before_ && window_.ready() > 0) next = std::min(next, submit_not_before_);
  return next;
}

std::size_t Relay::holding() const {
  return window_.size() + verdicts_.size() + (pending_ ? pending_->settlements.size() : 0);
}

}  // namespace outbox
