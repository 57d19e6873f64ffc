// Keeps a log readable: so many lines in so long, and how many were left out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "relay/clock.h"

namespace outbox {

// At most `lines` lines in `window`. Confined to one thread.
class LineLimit {
 public:
  LineLimit(std::uint32_t lines, Duration window) : lines_(lines), window_(window) {}

  // May a line be written now? If so, how many were left out since the last one that was.
  std::optional<std::uint64_t> admit(Time now);

  // How many were left out, once the window is over: they deserve a line of their own.
  std::optional<std::uint64_t> overdue(Time now);

  // How many were left out and not told yet; forgets them.
  std::uint64_t take_suppressed();

  bool idle(Time now) const { return suppressed_ == 0 && now >= window_end_; }

 private:
  std::uint32_t lines_;
  Duration window_;
  Time window_end_{};
  std::uint32_t written_ = 0;
  std::uint64_t suppressed_ = 0;
};

// The text with what varies from one occurrence to the next taken out: longer runs of letters and
// digits that hold a digit (ports, ids, times). Status codes stay.
std::string fingerprint_of(std::string_view text);

// One line per fingerprint and window. Bounded: beyond kMost, all others share one.
class FingerprintLimit {
 public:
  static constexpr std::size_t kMost = 200;

  explicit FingerprintLimit(Duration window) : window_(window) {}

  // As LineLimit. `example` is kept to show what the lines left out were like.
  std::optional<std::uint64_t> admit(Time now, const std::string& fingerprint,
                                     const std::string& example);

  struct Overdue {
    std::string example;
    std::uint64_t suppressed = 0;
  };
  std::vector<Overdue> overdue(Time now);
  std::vector<Overdue> take_suppressed();

 private:
  struct Entry {
    LineLimit limit;
    std::string example;
  };

  const Duration window_;
  std::unordered_map<std::string, Entry> entries_;
};

}  // namespace outbox
