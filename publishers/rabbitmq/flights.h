// Messages on the wire whose confirm is still to come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "relay/publisher.h"

namespace outbox {

struct Flight {
  Publication publication;
  std::string exchange;
  std::string routing_key;
  Time start{};
  Time deadline{};
  std::string returned;  // why the broker sent it back; empty if it did not
};

// By delivery tag, which a channel counts from 1. Confirms come singly or for all tags up to one,
// mixed, and in no order that one could count on: so each is looked up. Used by one thread.
class Flights {
 public:
  void add(std::uint64_t tag, Flight flight);
  std::size_t size() const { return flights_.size(); }
  bool empty() const { return flights_.empty(); }

  // Takes out the one with this tag, or all up to it; none if they have ended already.
  std::vector<Flight> settle(std::uint64_t tag, bool multiple);

  // The broker has sent a message back; its confirm is still to come, and confirms nothing.
  void mark_returned(const std::string& id, const std::string& why);

  // Takes out those whose time is over.
  std::vector<Flight> take_expired(Time now);
  std::vector<Flight> take_all();

  std::optional<Time> next_deadline() const;

 private:
  std::map<std::uint64_t, Flight> flights_;
};

}  // namespace outbox
