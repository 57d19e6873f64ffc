// Ordering keys whose head can't be leased now, so that their rows are not asked about one by one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

namespace outbox {

// A memory only: forgetting costs a query, a stale entry a delay of a second. Bounded.
class BlockedKeys {
 public:
  // Whether the key is known to be blocked; remembers that `row` waits for it.
  bool holds_back(const std::string& key, std::int64_t row) {
    const auto found = keys_.find(key);
    if (found == keys_.end()) return false;
    found->second.first_waiting = std::min(found->second.first_waiting, row);
    return true;
  }

  // The row that the key waits for, if it is known to be blocked.
  std::optional<std::int64_t> blocker(const std::string& key) const {
    const auto found = keys_.find(key);
    return found == keys_.end() ? std::nullopt : std::optional(found->second.blocker);
  }

  // `row` can't be leased before `blocker`, an earlier row of its key, is decided.
  void block(const std::string& key, std::int64_t blocker, std::int64_t row) {
    if (keys_.size() >= kMax) clear();
    keys_[key] = {blocker, row};
    blockers_[blocker] = key;
  }

  // `row` was decided or leased. Returns the first row that waited for it, if any is known.
  std::optional<std::int64_t> unblock(std::int64_t row) {
    const auto blocker = blockers_.find(row);
    if (blocker == blockers_.end()) return std::nullopt;
    std::optional<std::int64_t> waiting;
    const auto found = keys_.find(blocker->second);
    if (found != keys_.end() && found->second.blocker == row) {
      waiting = found->second.first_waiting;
      keys_.erase(found);
    }
    blockers_.erase(blocker);
    return waiting;
  }

  void clear() {
    keys_.clear();
    blockers_.clear();
  }

 private:
  static constexpr std::size_t kMax = 10'000;
  struct Block {
    std::int64_t blocker = 0;
    std::int64_t first_waiting = 0;
  };
  std::unordered_map<std::string, Block> keys_;
  std::unordered_map<std::int64_t, std::string> blockers_;
};

}  // namespace outbox
