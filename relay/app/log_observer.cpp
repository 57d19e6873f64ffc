#include "relay/app/log_observer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "relay/destination_name.h"
#include "relay/inspection.h"

namespace outbox {
namespace {

const char* sentence_of(CircuitState state) {
  switch (state) {
    case CircuitState::closed:
      return "circuit closed: publishing";
    case CircuitState::open:
      return "circuit opened: publishing stops";
    case CircuitState::half_open:
      return "circuit half-open: trying the broker";
    case CircuitState::isolated:
      return "circuit isolated by an operator: publishing stops";
  }
  return "circuit changed";
}

// "asset.created: 12, asset.moved: 3, 4 more types"
std::string by_event_type(const ShortCircuit& short_circuit) {
  constexpr std::size_t kShown = 5;
  std::string text;
  for (std::size_t index = 0; index < std::min(kShown, short_circuit.counts.size()); ++index) {
    const auto& count = short_circuit.counts[index];
    text += fmt::format("{}{}: {}", index == 0 ? "" : ", ", count.event_type, count.messages);
  }
  const std::size_t more =
      short_circuit.counts.size() - std::min(kShown, short_circuit.counts.size());
  if (more > 0) text += fmt::format(", {} more types", more);
  return text;
}

}  // namespace

LogObserver::LogObserver(Log& log, const Clock& clock, std::string broker)
    : log_(log), clock_(clock), broker_(std::move(broker)) {}

void LogObserver::on_turn(const TurnReport& turn) {
  const Time now = clock_.now();
  tell_store(turn);
  tell_pause(turn);
  if (turn.isolated > 0) {
    const std::string error(turn.isolated_error);
    const auto suppressed = store_errors_.admit(now, "isolated " + fingerprint_of(error), error);
    if (suppressed) {
      log_.error("a row could not be written: its state is kept beside it",
                 {{"rows", turn.isolated}, {"error", error}, {"suppressed", *suppressed}});
    }
  }
  if (turn.fenced > 0) {
    const auto suppressed = store_errors_.admit(now, "fenced", "settlements came too late");
    if (suppressed) {
      log_.warn("settlements came too late and changed nothing: their leases had ended",
                {{"settlements", turn.fenced}, {"suppressed", *suppressed}});
    }
  }
  if (turn.taken_over > 0) {
    log_.info("took over leases of a relay that is gone", {{"leases", turn.taken_over}});
  }
  tell_overdue(now);
}

void LogObserver::tell_store(const TurnReport& turn) {
  const bool busy = turn.status == TurnStatus::busy;
  const Time now = clock_.now();
  if (!busy) busy_since_.reset();
  if (busy && !busy_since_) busy_since_ = now;
  if (busy && now - *busy_since_ < kBusyMax) return;  // as others' writes make it
  if (turn.status == TurnStatus::committed) {
    if (store_usable_ != true) log_.info(store_usable_ ? "store usable again" : "store usable");
    store_usable_ = true;
    store_fingerprint_.clear();
    return;
  }
  std::string fingerprint = fingerprint_of(turn.error);
  if (store_usable_ == false && fingerprint == store_fingerprint_) return;
  const LogLevel level = turn.status == TurnStatus::unusable ? LogLevel::error : LogLevel::warn;
  const LogField field("error", turn.error);
  log_.write(level,
             busy ? "store busy for too long: nothing is leased, nothing is settled"
                  : "store not usable: nothing is leased",
             {&field, 1});
  store_usable_ = false;
  store_fingerprint_ = std::move(fingerprint);
}

void LogObserver::tell_pause(const TurnReport& turn) {
  if (turn.status != TurnStatus::committed || turn.paused == paused_) return;
  paused_ = turn.paused;
  if (paused_) {
    log_.warn("paused by an operator: nothing is leased until `outbox-relay resume`");
  } else {
    log_.info("resumed by an operator");
  }
}

void LogObserver::on_delivery(const Delivery& delivery) {
  if (delivery.outcome == Outcome::confirmed) {
    ++counts_.published;
    return;
  }
  if (delivery.outcome == Outcome::cancelled) return;
  ++counts_.failed_attempts;
  const std::string kind = name_of(delivery.outcome);
  const std::string reason(delivery.reason);
  const auto suppressed =
      failures_.admit(clock_.now(), kind + " " + fingerprint_of(reason), kind + ": " + reason);
  if (!suppressed) return;
  const std::string event_type = delivery.message ? delivery.message->event_type : std::string{};
  log_.warn("publish failed", {{"broker", broker_},
                               {"kind", kind},
                               {"reason", reason},
                               {"event_type", event_type},
                               {"destination", destination_name(delivery.destination)},
                               {"will_retry", delivery.will_retry},
                               {"suppressed", *suppressed}});
}

void LogObserver::on_short_circuit(const ShortCircuit& short_circuit) {
  counts_.short_circuited += short_circuit.total;
  log_.warn("messages short-circuited: the circuit is open",
            {{"broker", broker_},
             {"messages", short_circuit.total},
             {"event_types", by_event_type(short_circuit)}});
}

void LogObserver::on_burial(const Burial& burial) {
  ++counts_.dead_lettered;
  const auto suppressed = dead_letters_.admit(clock_.now());
  if (!suppressed) return;
  log_.error("dead letter", {{"id", burial.id},
                             {"event_type", burial.event_type},
                             {"reason", name_of(burial.reason)},
                             {"attempts", burial.attempts},
                             {"error", burial.error},
                             {"suppressed", *suppressed}});
}

void LogObserver::on_circuit(const CircuitChange& change) {
  const bool open = change.to == CircuitState::open;
  const bool stops = open || change.to == CircuitState::isolated;
  if (open) next_probe_ = change.next_probe;
  std::vector<LogField> fields = {
      {"broker", broker_}, {"from", name_of(change.from)}, {"to", name_of(change.to)}};
  if (!change.reason.empty()) fields.emplace_back("reason", change.reason);
  if (open) fields.emplace_back("next_probe_seconds", change.next_probe);
  log_.write(stops ? LogLevel::warn : LogLevel::info, sentence_of(change.to), fields);
}

void LogObserver::on_probe() {
  std::optional<Sample> sample;
  {
    const std::lock_guard lock(mutex_);
    sample = sample_;
  }
  std::vector<LogField> fields = {{"broker", broker_}};
  if (sample) {
    fields.emplace_back("backlog", sample->waiting);
    if (sample->oldest_age) {
      fields.emplace_back("oldest_age_seconds", *sample->oldest_age);
    }
    // Much may have become of them since.
    fields.emplace_back("backlog_sampled_seconds_ago", clock_.now() - sample->taken);
  }
  // The length of the last break; the next one varies a little around it.
  fields.emplace_back("next_probe_seconds", next_probe_);
  log_.write(LogLevel::info,
             "probe: sending one message; if it fails, the next comes a break later", fields);
}

void LogObserver::on_destination(const DestinationChange& change) {
  const std::string destination = destination_name(change.destination);
  if (change.reason.empty()) {
    log_.info("destination no longer held", {{"broker", broker_}, {"destination", destination}});
    return;
  }
  log_.warn("destination held: one message a minute tries it, none dies",
            {{"broker", broker_},
             {"destination", destination},
             {"kind", name_of(change.kind)},
             {"reason", change.reason}});
}

void LogObserver::set_backlog(const Backlog& backlog, Time sampled_at) {
  const std::lock_guard lock(mutex_);
  sample_ =
      Sample{backlog.pending + backlog.failed + backlog.leased, backlog.oldest_age, sampled_at};
}

void LogObserver::tell_overdue(Time now) {
  for (const auto& overdue : failures_.overdue(now)) tell_more(overdue);
  for (const auto& overdue : store_errors_.overdue(now)) tell_more(overdue);
  if (const auto count = dead_letters_.overdue(now)) tell_more_dead(*count);
}

void LogObserver::tell_more(const FingerprintLimit::Overdue& overdue) {
  log_.warn("more of the same", {{"like", overdue.example}, {"suppressed", overdue.suppressed}});
}

void LogObserver::tell_more_dead(std::uint64_t count) {
  log_.error("more dead letters", {{"suppressed", count}});
}

void LogObserver::flush() {
  for (const auto& overdue : failures_.take_suppressed()) tell_more(overdue);
  for (const auto& overdue : store_errors_.take_suppressed()) tell_more(overdue);
  const auto count = dead_letters_.take_suppressed();
  if (count > 0) tell_more_dead(count);
}

}  // namespace outbox
