// The log of a run: hashed always, printed on demand. Equal hashes mean equal runs.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "relay/clock.h"

namespace outbox::sim {

struct Field {
  const char* name;
  std::uint64_t value;
};

class Trace {
 public:
  explicit Trace(bool print) : print_(print) {}

  void event(Time now, std::string_view actor, std::string_view what,
             std::initializer_list<Field> fields = {}, std::string_view text = {});

  std::uint64_t hash() const { return hash_; }
  std::uint64_t events() const { return events_; }

 private:
  void add(std::uint64_t value);
  void add(std::string_view text);

  const bool print_;
  std::uint64_t hash_ = 0xcbf29ce484222325ULL;
  std::uint64_t events_ = 0;
};

}  // namespace outbox::sim
