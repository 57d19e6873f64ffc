// Where a bounded walk over an index goes on, and when it starts over.
#pragma once

#include <algorithm>
#include <chrono>
#include <compare>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "relay/clock.h"
#include "storage/postgres/query.h"

namespace outbox::postgres {

// A row's place in the order of its table. The text decides only where numbers may be equal.
struct Place {
  std::int64_t number = std::numeric_limits<std::int64_t>::min();
  std::string tie;
  auto operator<=>(const Place&) const = default;
};

// Among failed rows.
struct DuePlace {
  ServerTime due = ServerTime::min();
  Place place;
  auto operator<=>(const DuePlace&) const = default;
};

// A walk remembers where it was, so that neither what can't be leased now nor the dead entries that
// a long transaction keeps in the index are read again each turn. It starts over from the beginning
// once a second, since rows may be committed late with lower numbers; each five seconds at least,
// and in between less often if that would cost more than about a twentieth of a core. Having
// reached the end and passed over few rows, it looks at those again at once.
template <class Position>
class Walk {
 public:
  void begin(Time now) {
    if (!started_ || now - *started_ >= interval()) {
      started_ = now;
      position_.reset();
      return leave_end();
    }
    if (!at_end_ || passed_ > kFew) return;
    if (passed_ > 0) position_ = first_passed_;
    leave_end();
  }

  // The first place to be read; nothing: the beginning.
  const std::optional<Position>& position() const { return position_; }
  // A row was read, and need not be read again but by a new walk.
  void advance(const Position& place) {
    position_ = place;
    after_ = true;
  }
  // Whether a row that was found from the position on was read already.
  bool is_read(const Position& place) const {
    return after_ && position_ && same(place, *position_);
  }
  // A row can't be leased now, but may be later.
  void pass(const Position& place) {
    if (passed_++ == 0) first_passed_ = place;
  }
  // Of the rows that the walk has met, some can't be leased now.
  bool passed_any() const { return passed_ > 0; }
  void turn_back(const Position& place) {
    if (!position_ || place > *position_) return;
    position_ = place;
    after_ = false;
    at_end_ = false;
  }
  void reach_end() { at_end_ = true; }
  // So long it took to read on.
  void spend(Duration time) { spent_ += time; }

 private:
  static constexpr Duration kInterval = std::chrono::seconds{1};
  static constexpr Duration kIntervalMax = std::chrono::seconds{5};
  static constexpr int kShare = 20;
  static constexpr std::size_t kFew = 256;

  static bool same(const Place& one, const Place& other) { return one == other; }
  // Rows that are due at one time are found together.
  static bool same(const DuePlace& one, const DuePlace& other) { return one <= other; }

  Duration interval() const { return std::clamp(kShare * spent_, kInterval, kIntervalMax); }
  void leave_end() {
    if (!position_) spent_ = Duration{0};
    after_ = after_ && position_ && passed_ == 0;
    at_end_ = false;
    passed_ = 0;
    first_passed_.reset();
  }

  std::optional<Time> started_;
  std::optional<Position> position_;
  std::optional<Position> first_passed_;
  bool after_ = false;
  bool at_end_ = false;
  std::size_t passed_ = 0;
  Duration spent_{0};
};

}  // namespace outbox::postgres
