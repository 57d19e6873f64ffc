#include "publishers/rabbitmq/suspects.h"

#include <algorithm>

namespace outbox {

namespace {

// Rows may never come back, having been taken over by another relay. To forget all of them costs
// one more closed channel.
constexpr std::size_t kRemembered = 10'000;

void remember(std::set<std::string>& names, const std::string& name) {
  if (names.size() >= kRemembered) names.clear();
  names.insert(name);
}

// What RabbitMQ calls the exchange; the default one's name is empty.
std::string quoted(const std::string& exchange) {
  return exchange.empty() ? "'amq.default'" : "'" + exchange + "'";
}

std::size_t size_of(const Flight& flight) { return flight.publication.message->payload.size(); }

}  // namespace

std::string Suspects::place_of(const Flight& flight) {
  return flight.exchange + '/' + flight.routing_key;
}

void Suspects::suspect(const Flight& flight, const std::string& reason) {
  remember(ids_, flight.publication.message->id);
  if (reason.find(quoted(flight.exchange)) != std::string::npos) {
    remember(exchanges_, flight.exchange);
  }
}

void Suspects::convict_size(const Flight& flight) { size_ = std::min(size_, size_of(flight)); }

void Suspects::convict_place(const Flight& flight) {
  remember(exchanges_, flight.exchange);
  remember(places_, place_of(flight));
}

void Suspects::clear(const Flight& flight, bool taken) {
  if (!ids_.empty()) ids_.erase(flight.publication.message->id);
  if (!taken) return;
  if (size_of(flight) >= size_) size_ = size_of(flight) + 1;
  if (!exchanges_.empty()) exchanges_.erase(flight.exchange);
  if (!places_.empty()) places_.erase(place_of(flight));
}

bool Suspects::contains(const Flight& flight) const {
  if (size_of(flight) >= size_) return true;
  if (!ids_.empty() && ids_.contains(flight.publication.message->id)) return true;
  if (!exchanges_.empty() && exchanges_.contains(flight.exchange)) return true;
  return !places_.empty() && places_.contains(place_of(flight));
}

}  // namespace outbox
