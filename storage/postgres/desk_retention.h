// Removing what is over its time, in small chunks.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "storage/postgres/desk.h"

namespace outbox::postgres {

// Confined to one thread. Rows are looked at without locks; they are deleted by a statement that
// carries their state and time again, so that two of these do no harm to each other.
class Cleaner {
 public:
  Cleaner(StoreSettings settings, std::string now);
  ~Cleaner();
  Cleaner(const Cleaner&) = delete;
  Cleaner& operator=(const Cleaner&) = delete;

  // See OutboxDesk::clean(). Connects for the step: between two of them nothing is held. Throws
  // what a Desk throws; the next call begins a new pass.
  CleanStep step(const CleanRequest& request);

 private:
  using PaceClock = std::chrono::steady_clock;
  enum class Stage { processed, dead_lettered, attempts, audit, orphans, done };

  CleanStep take_step(const CleanRequest& request);
  void begin_pass();
  void begin_stage(Stage stage);
  void end_stage();
  std::optional<Duration> term(const CleanRequest& request) const;
  CleanStep run_stage(const CleanRequest& request);
  void look(const CleanRequest& request);
  void look_at_rows(Duration term);
  void look_at_dead(const CleanRequest& request);
  void look_at_notes();
  std::uint64_t remove(const CleanRequest& request);
  std::uint64_t remove_rows(const std::vector<std::string>& keys, const CleanRequest& request);
  std::uint64_t remove_notes(const std::vector<std::string>& keys);
  std::uint64_t remove_log(const std::string& table, const CleanRequest& request);
  static std::uint64_t& count_of(Stage stage, CleanStep& step);

  const StoreSettings settings_;
  const std::string now_;

  // Rows are delivered roughly in the order of the table, so that the old ones stand at its
  // beginning: a pass goes on where the last one met a row that may become old, and stops where
  // rows are too young. Now and then a thorough one walks through all of it, for those that were
  // decided out of order, and looks for notes about rows that are gone.
  std::optional<Position> walk_start_;  // a pass begins behind it
  std::optional<Position> before_kept_;
  bool kept_ = false;
  bool thorough_ = true;
  std::optional<PaceClock::time_point> thorough_at_;

  std::unique_ptr<Desk> desk_;  // while a step is taken

  // While a pass is under way: how far it and the stage have come.
  bool under_way_ = false;
  Stage stage_ = Stage::done;
  std::optional<Position> position_;
  std::vector<std::string> over_;  // keys that the last look found, not yet removed
  std::uint64_t removed_ = 0;      // since the last look
  bool at_end_ = false;            // of the stage, once those are removed
};

}  // namespace outbox::postgres
