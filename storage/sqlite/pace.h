// How much of SQLite's write lock the relay takes, so that the application is never hurt.
#pragma once

#include <algorithm>
#include <cstddef>

#include "relay/clock.h"

namespace outbox::sqlite {

class Pace {
 public:
  // Rows, settled and leased together, that one transaction may touch.
  std::size_t limit() const { return limit_; }

  // The lock was held so long; of it, so long for the commit itself, which fewer rows would not
  // make shorter on a slow disk.
  void held(Duration total, Duration committing) {
    if (total > kHeldMax && total - committing > kWorkMin) {
      limit_ = std::max(kLimitMin, limit_ / 2);
    } else if (total < kHeldMax / 2) {
      limit_ = std::min(kLimitMax, limit_ + limit_ / 16 + 1);
    }
  }

  // Somebody else has committed.
  void others_wrote(Time now) {
    others_wrote_ = true;
    last_write_ = now;
  }

  // How long to leave the database alone after having held the lock for `held`.
  Duration rest(Time now, Duration held) const {
    if (!others_wrote_ || now - last_write_ > kBusyTime) return Duration{0};
    return kRestFactor * held;
  }

 private:
  static constexpr Duration kHeldMax = std::chrono::milliseconds{8};
  static constexpr Duration kWorkMin = std::chrono::milliseconds{2};
  static constexpr Duration kBusyTime = std::chrono::seconds{1};
  static constexpr int kRestFactor = 4;  // at most a fifth of the time is ours
  static constexpr std::size_t kLimitMin = 32;
  static constexpr std::size_t kLimitMax = 4096;

  std::size_t limit_ = 1024;
  bool others_wrote_ = false;
  Time last_write_{};
};

}  // namespace outbox::sqlite
