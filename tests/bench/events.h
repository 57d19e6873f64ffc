// What is sent: events from a file of JSON lines.
#pragma once

#include <string>
#include <vector>

namespace outbox::bench {

struct Event {
  std::string type;
  std::string key;
  std::string payload;
};

// Each line is an object with event_type, ordering_key and payload. Throws std::runtime_error when
// the file can't be read or holds none.
std::vector<Event> load_events(const std::string& path);

}  // namespace outbox::bench
