#include "publishers/rabbitmq/flights.h"

#include <algorithm>
#include <utility>

namespace outbox {

void Flights::add(std::uint64_t tag, Flight flight) { flights_.emplace(tag, std::move(flight)); }

std::vector<Flight> Flights::settle(std::uint64_t tag, bool multiple) {
  const auto last = flights_.upper_bound(tag);
  auto next = multiple ? flights_.begin() : flights_.find(tag);
  if (!multiple && next == flights_.end()) return {};
  std::vector<Flight> settled;
  while (next != last) {
    settled.push_back(std::move(next->second));
    next = flights_.erase(next);
  }
  return settled;
}

void Flights::mark_returned(const std::string& id, const std::string& why) {
  for (auto& [tag, flight] : flights_) {
    if (flight.publication.message->id != id || !flight.returned.empty()) continue;
    flight.returned = why;
    return;
  }
}

std::vector<Flight> Flights::take_expired(Time now) {
  std::vector<Flight> expired;
  for (auto next = flights_.begin(); next != flights_.end();) {
    if (now < next->second.deadline) {
      ++next;
      continue;
    }
    expired.push_back(std::move(next->second));
    next = flights_.erase(next);
  }
  return expired;
}

std::vector<Flight> Flights::take_all() {
  std::vector<Flight> all;
  for (auto& [tag, flight] : flights_) all.push_back(std::move(flight));
  flights_.clear();
  return all;
}

// All attempts last equally long, so that the first to start is the first to end.
std::optional<Time> Flights::next_deadline() const {
  if (flights_.empty()) return std::nullopt;
  return flights_.begin()->second.deadline;
}

}  // namespace outbox
