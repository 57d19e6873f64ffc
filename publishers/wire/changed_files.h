// Files that are read anew when somebody has changed or replaced them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace outbox {

// Looks at the files' metadata only, which takes about a microsecond each, so that it can be asked
// before every request. Used by one thread, or under its owner's lock.
class ChangedFiles {
 public:
  // Empty paths are left out. Nothing is looked at yet.
  explicit ChangedFiles(std::vector<std::string> paths);

  // Whether a file differs from what was accepted last: always, until something was.
  bool changed();

  // What changed() saw has been read and is in use.
  void accept();

 private:
  struct Stamp {
    std::int64_t seconds = 0;  // of the last change to content, name or owner
    std::int64_t nanoseconds = 0;
    std::uint64_t inode = 0;
    std::uint64_t size = 0;
    bool operator==(const Stamp&) const = default;
  };

  const std::vector<std::string> paths_;
  std::vector<Stamp> seen_;
  bool seen_fresh_ = false;  // a file changed only a moment before it was seen
  std::optional<std::vector<Stamp>> accepted_;
};

}  // namespace outbox
