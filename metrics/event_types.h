// The series that carry an event type, and the limit on how many types get their own.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace outbox {

struct EventTypeOptions {
  // If not empty, only these have series of their own, and have them from the start.
  std::vector<std::string> allowed;
  // At most this many have, whether listed or met; 0 books all under `__other__`.
  std::size_t limit = 20;
};

// Made once per event type, so that counting a message costs one look-up by its type and no more.
struct EventTypeSeries {
  prometheus::Counter& published;
  prometheus::Counter& circuit_open;
  prometheus::Counter& publish_fault;
  prometheus::Gauge& dead_letters;
};

// Safe to call from any thread.
class EventTypes {
 public:
  // `registry` and `overflow` outlive this object. `overflow` counts what had to be booked under
  // `__other__` although no allow-list asked for it.
  EventTypes(prometheus::Registry& registry, std::string broker, const EventTypeOptions& options,
             prometheus::Counter& overflow);

  // The type's own series, or those of `__other__`. They live as long as this object.
  EventTypeSeries& series_of(std::string_view event_type);

  prometheus::Counter& consume_fault_of(std::string_view event_type);

  // Replaces the sampled number of dead letters of every type.
  void set_dead_letters(const std::vector<std::pair<std::string, std::uint64_t>>& counts);

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };
  using Entry = std::pair<const std::string, EventTypeSeries>;
  struct Found {
    Entry& entry;
    bool overflowed = false;
  };

  Found find(std::string_view event_type);
  Entry& add(const std::string& event_type);

  const std::string broker_;
  const std::size_t limit_;
  const bool closed_;  // an allow-list says which types there are
  prometheus::Counter& overflow_;
  prometheus::Family<prometheus::Counter>& published_;
  prometheus::Family<prometheus::Counter>& circuit_open_;
  prometheus::Family<prometheus::Counter>& fault_;
  prometheus::Family<prometheus::Gauge>& dead_letters_;

  std::mutex mutex_;  // guards what follows
  std::unordered_map<std::string, EventTypeSeries, Hash, std::equal_to<>> series_;
  Entry& other_;
};

}  // namespace outbox
