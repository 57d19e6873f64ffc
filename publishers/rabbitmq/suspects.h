// Messages over which the broker may close the channel.
#pragma once

#include <cstddef>
#include <limits>
#include <set>
#include <string>

#include "publishers/rabbitmq/flights.h"

namespace outbox {

// A channel that is closed takes all that is in flight on it with it, and the broker does not say
// which message it closed it over. So those are published alone the next time: whom it then means
// is clear, and nobody else comes to harm a second time. Used by one thread.
class Suspects {
 public:
  // It was in flight when the channel was closed. If the broker named its exchange as the reason,
  // whatever else is to go there is suspected as well.
  void suspect(const Flight& flight, const std::string& reason);

  // It was this one: for its size, or over where it was to go. Others like it are suspected.
  void convict_size(const Flight& flight);
  void convict_place(const Flight& flight);

  // The broker has answered to this one by itself. `taken`: so may be others like it.
  void clear(const Flight& flight, bool taken);

  bool contains(const Flight& flight) const;

 private:
  static std::string place_of(const Flight& flight);

  std::set<std::string> ids_;
  std::set<std::string> exchanges_;
  std::set<std::string> places_;  // with the routing key: a permission may hang on that
  std::size_t size_ = std::numeric_limits<std::size_t>::max();  // of payloads: this one and larger
};

}  // namespace outbox
