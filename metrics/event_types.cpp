#include "metrics/event_types.h"

#include "metrics/label_text.h"
#include "metrics/names.h"

namespace outbox {

namespace {

constexpr std::size_t kNameMax = 200;  // bytes; a longer one is no name but an accident

template <class Builder>
auto& family(Builder builder, const metric::Family& family, prometheus::Registry& registry) {
  return builder.Name(family.name).Help(family.help).Register(registry);
}

}  // namespace

EventTypes::EventTypes(prometheus::Registry& registry, std::string broker,
                       const EventTypeOptions& options, prometheus::Counter& overflow)
    : broker_(std::move(broker)),
      limit_(options.limit),
      closed_(!options.allowed.empty() || options.limit == 0),
      overflow_(overflow),
      published_(family(prometheus::BuildCounter(), metric::kPublished, registry)),
      circuit_open_(family(prometheus::BuildCounter(), metric::kBrokerCircuitOpen, registry)),
      fault_(family(prometheus::BuildCounter(), metric::kBrokerFault, registry)),
      dead_letters_(family(prometheus::BuildGauge(), metric::kDeadLetters, registry)),
      other_(add(metric::kOtherEventTypes)) {
  consume_fault_of(metric::kOtherEventTypes);
  for (const std::string& event_type : options.allowed) {
    if (series_.size() <= limit_ && is_label_text(event_type, kNameMax)) add(event_type);
  }
}

EventTypes::Entry& EventTypes::add(const std::string& event_type) {
  using namespace metric::label;
  const prometheus::Labels labels{{kBroker, broker_}, {kEventType, event_type}};
  prometheus::Labels fault_labels = labels;
  fault_labels.emplace(kSource, "publish");
  return *series_
              .try_emplace(event_type,
                           EventTypeSeries{published_.Add(labels), circuit_open_.Add(labels),
                                           fault_.Add(fault_labels),
                                           dead_letters_.Add({{kEventType, event_type}})})
              .first;
}

// With the mutex held.
EventTypes::Found EventTypes::find(std::string_view event_type) {
  if (const auto known = series_.find(event_type); known != series_.end()) return {*known};
  if (closed_) return {other_};
  // `__other__` is one entry of the map and does not count.
  if (series_.size() > limit_ || !is_label_text(event_type, kNameMax)) return {other_, true};
  return {add(std::string(event_type))};
}

EventTypeSeries& EventTypes::series_of(std::string_view event_type) {
  const std::lock_guard lock(mutex_);
  const Found found = find(event_type);
  if (found.overflowed) overflow_.Increment();
  return found.entry.second;
}

prometheus::Counter& EventTypes::consume_fault_of(std::string_view event_type) {
  using namespace metric::label;
  const std::lock_guard lock(mutex_);
  const Found found = find(event_type);
  if (found.overflowed) overflow_.Increment();
  return fault_.Add({{kBroker, broker_}, {kEventType, found.entry.first}, {kSource, "consume"}});
}

void EventTypes::set_dead_letters(
    const std::vector<std::pair<std::string, std::uint64_t>>& counts) {
  const std::lock_guard lock(mutex_);
  // Summed up first, so that a scrape meanwhile sees no zero that never was.
  std::unordered_map<prometheus::Gauge*, double> sums;
  for (const auto& [event_type, count] : counts) {
    sums[&find(event_type).entry.second.dead_letters] += static_cast<double>(count);
  }
  for (auto& [event_type, series] : series_) {
    const auto sum = sums.find(&series.dead_letters);
    series.dead_letters.Set(sum == sums.end() ? 0 : sum->second);
  }
}

}  // namespace outbox
