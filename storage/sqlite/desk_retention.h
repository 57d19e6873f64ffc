// Removing what is over its time, without anybody noticing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "relay/random.h"
#include "storage/mapping/clean_pace.h"
#include "storage/sqlite/desk.h"

namespace outbox::sqlite {

// Confined to one thread. Every row is looked at without the write lock; each is deleted by a
// statement that carries the state again, so that two of these do no harm to each other.
class Cleaner {
 public:
  // `clocks` outlives it.
  Cleaner(std::string path, Mapping mapping, const Clocks& clocks, std::uint64_t wal_limit);
  ~Cleaner();
  Cleaner(const Cleaner&) = delete;
  Cleaner& operator=(const Cleaner&) = delete;

  // See OutboxDesk::clean(). Throws Unusable or SQLite::Exception; the next call begins a new pass.
  CleanStep step(const CleanRequest& request);

 private:
  enum class Stage { processed, dead_lettered, attempts, audit, orphans, done };
  struct Seen;
  struct Work;

  CleanStep busy();
  void begin_pass();
  void begin_stage(Stage stage);
  void end_stage();
  void prepare(const CleanRequest& request);
  CleanStep run_stage(const CleanRequest& request);
  std::optional<Duration> term(const CleanRequest& request) const;
  bool is_over(const Seen& seen, WallTime before) const;
  void note_kept(const Seen& seen);
  void look(WallTime before);
  void remove(std::size_t most, WallTime before, CleanStep& step);
  bool remove_one(const Seen& seen);
  static std::uint64_t& count_of(Stage stage, CleanStep& step);

  const std::string path_;
  const Mapping mapping_;
  const Clocks& clocks_;
  const std::uint64_t wal_limit_;
  Random random_;
  CleanPace pace_;

  // Rows are delivered roughly in the order of the table, so that the old ones stand at its
  // beginning: a pass goes on where the last one met a row that may become old, and stops where
  // rows are too young. Now and then a thorough one walks through all of it, for those that were
  // decided out of order, and looks for notes about rows that are gone.
  std::int64_t walk_start_ = INT64_MIN;  // a pass begins after this place
  std::optional<std::int64_t> first_kept_;
  bool thorough_ = true;
  std::optional<Time> thorough_at_;
  std::optional<FileIdentity> walked_file_;

  // While a pass is under way: the open connection, and how far the stage has come.
  std::unique_ptr<Work> work_;
  Stage stage_ = Stage::done;
  Value position_{INT64_MIN};
};

}  // namespace outbox::sqlite
