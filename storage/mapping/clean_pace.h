// How much a clean-up does at once, and how long it rests.
#pragma once

#include <algorithm>
#include <cstddef>

#include "relay/clock.h"

namespace outbox {

// The application's commits wait while the write lock is held, and SQLite's waiters sleep in steps
// of milliseconds: so the lock is held for about two, seldom.
class CleanPace {
 public:
  // A transaction deletes rows for at most this long, and at most limit() of them.
  static constexpr Duration kWorkMax = std::chrono::microseconds{1500};

  std::size_t limit(std::size_t most) const {
    return std::min(limit_, std::max<std::size_t>(most, 1));
  }

  // A transaction deleted `rows` and held the lock for `total`.
  void held(std::size_t rows, Duration total) {
    if (total > kHeldMax) {
      limit_ = std::max(kLimitMin, std::min(limit_, rows) / 2);
    } else if (rows >= limit_ && total < kHeldGood) {
      limit_ = std::min(kLimitMax, limit_ + limit_ / 4 + 1);
    }
  }

  // How long to leave the database alone after that.
  static Duration rest(Duration held, bool others_write) {
    return std::max(others_write ? kRestAmongOthers * held : kRestAlone * held, kRestMin);
  }

 private:
  static constexpr Duration kHeldMax = std::chrono::microseconds{3000};
  static constexpr Duration kHeldGood = std::chrono::microseconds{1500};
  static constexpr Duration kRestMin = std::chrono::milliseconds{1};
  static constexpr int kRestAlone = 4;
  static constexpr int kRestAmongOthers = 10;  // less than a tenth of the time is ours
  static constexpr std::size_t kLimitMin = 2;
  static constexpr std::size_t kLimitMax = 100'000;

  std::size_t limit_ = 32;
};

}  // namespace outbox
