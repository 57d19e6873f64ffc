// How the window grows again after an outage: 1, 2, 4 ... so that a broker that has just come back
// is not met by everything that waited for it.
#pragma once

#include <cstddef>

namespace outbox {

class Ramp {
 public:
  explicit Ramp(std::size_t full) : full_(full), limit_(full) {}

  // The circuit has closed: start over from one.
  void restart();
  // One publish was answered. A full round of `limit()` confirmations doubles the limit; a failure
  // starts the round again.
  void on_confirmed();
  void on_failed();

  std::size_t limit() const { return limit_; }

 private:
  std::size_t full_;
  std::size_t limit_;
  std::size_t confirmed_ = 0;
};

}  // namespace outbox
