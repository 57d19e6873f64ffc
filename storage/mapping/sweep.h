// When a bounded scan goes on, and when it starts over.
#pragma once

#include <algorithm>
#include <cstddef>

#include "relay/clock.h"

namespace outbox {

// A sweep reads an index in portions, one a turn, and remembers where it was: what can't be leased
// now is not read again each turn. Having reached the end, it starts over
//  - at once, if something has changed since and little was passed over;
//  - else a second after its last start, or later if so much was passed over that starting over
//    would cost more than about a twentieth of a core.
// While a long sweep is under way, its beginning is looked at once a second.
class Sweep {
 public:
  enum class Start { resume, restart, peek };

  Start begin(Time now) {
    if (fresh_) return restart(now);
    if (at_end_) {
      const bool at_once = changed_ && passed_ <= kCheap;
      return at_once || now - started_ >= interval() ? restart(now) : Start::resume;
    }
    if (now - peeked_ < kInterval) return Start::resume;
    peeked_ = now;
    return Start::peek;
  }

  // Rows that were passed over may be worth another look.
  void note_change() { changed_ = true; }
  // A row can't be leased now, but may be later.
  void pass(std::size_t rows = 1) { passed_ += rows; }
  void reach_end() { at_end_ = true; }
  void leave_end() { at_end_ = false; }
  bool at_end() const { return at_end_; }

 private:
  static constexpr Duration kInterval = std::chrono::seconds{1};
  static constexpr Duration kCostOfRow = std::chrono::microseconds{2};
  static constexpr int kShare = 20;
  static constexpr std::size_t kCheap = 256;
  static constexpr std::size_t kPassedMax = 10'000'000;

  Duration interval() const {
    return std::max(kInterval, kCostOfRow * kShare *
                                   static_cast<int>(std::min<std::size_t>(passed_, kPassedMax)));
  }

  Start restart(Time now) {
    fresh_ = false;
    at_end_ = false;
    changed_ = false;
    passed_ = 0;
    started_ = now;
    peeked_ = now;
    return Start::restart;
  }

  bool fresh_ = true;
  bool at_end_ = false;
  bool changed_ = false;
  std::size_t passed_ = 0;
  Time started_{};
  Time peeked_{};
};

}  // namespace outbox
