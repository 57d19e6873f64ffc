// The rows that might be leased, from the five places where they are found.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "storage/mapping/sweep.h"
#include "storage/sqlite/connection.h"
#include "storage/sqlite/sql.h"
#include "storage/sqlite/times.h"

namespace outbox::sqlite {

// One row, as far as small columns tell.
struct Candidate {
  Value key;
  std::int64_t place = 0;  // the rowid
  std::optional<std::string> not_before;
  std::optional<std::string> ordering_key;
  std::optional<std::uint64_t> payload_size;  // absent for texts, whose size takes a probe
  std::optional<std::int64_t> holder;         // the incarnation that leased it
  std::optional<std::string> side_state;
  std::int64_t takeovers = 0;
  bool noted = false;  // there is a side row
  std::optional<std::string> due;
  std::optional<std::int64_t> last_delay_ms;
};

// What the visitor made of a candidate.
enum class Step {
  taken,   // go on
  mine,    // held by this relay already: go on
  passed,  // not now: go on
  halt,    // stop, and begin with this one next time
};

using Visitor = std::function<Step(const Candidate&)>;

// Confined to the connection's thread. Each walk reads at most `budget` index entries and goes on
// where the last one stopped; see Sweep.
class Candidates {
 public:
  Candidates(Connection& connection, const Sql& sql, std::string outbox);

  // Before the walks of one selection. True if keys found to be blocked may be free again.
  // `unlocked`: nobody waits for us.
  bool begin(Time now, WallTime wall, bool changed, bool unlocked, std::size_t budget);
  void end();

  // Never-failed rows in the order of the table. Ends early when `enough()`.
  void walk_fresh(const std::function<bool()>& enough, const Visitor& visit);
  // Failed rows that are due, those first that have been due longest.
  void walk_due(const std::function<bool()>& enough, const Visitor& visit);
  // Failed rows that wait for a broker's recovery since this epoch or an earlier one.
  void walk_waiting(std::int64_t epoch_max, const std::function<bool()>& enough,
                    const Visitor& visit);
  std::optional<Candidate> find(const Value& key);

  // A row in this place may be leased again: begin there, if the walk is past it.
  void turn_back(std::int64_t place);
  void start_over();
  // What walk_due() took may not have been used after all.
  void start_over_due() {
    due_position_ = {};
    due_resume_ = {};
    odd_looked_at_.reset();
  }

  // Whether the walks of this selection have seen everything there is.
  bool exhausted() const { return fresh_seen_ && due_seen_; }
  std::optional<WallTime> next_due() const { return next_due_; }

 private:
  struct DuePosition {
    std::string due;
    std::int64_t place = INT64_MIN;
    auto operator<=>(const DuePosition&) const = default;
  };
  enum class Due { now, later, later_as_all_after };

  bool all_unmarked_beyond(std::int64_t position);
  void walk_beside(const std::function<bool()>& enough, const Visitor& visit);
  void walk_odd(const std::function<bool()>& enough, const Visitor& visit);
  void walk_index(const std::function<bool()>& enough, const Visitor& visit);
  Due due_of(const std::string& text);
  bool is_absurd(const Candidate& candidate) const;
  void apply_turn_back();
  bool may_walk(bool unlocked) const;
  void note_walk();

  std::string outbox_;
  const bool keys_in_order_;
  const bool indexed_;  // pending rows are found without walking the table
  Query unmarked_;
  Query lease_beyond_;
  Query side_beyond_;
  Query pending_;
  Query failed_;
  Query dueless_;
  Query farthest_;
  Query beside_;
  Query waiting_;
  Query one_;
  std::optional<Query> count_;  // where no index helps

  // Kept between selections.
  Sweep fresh_;
  Sweep due_;
  std::int64_t fresh_position_ = INT64_MIN;
  DuePosition due_position_;
  std::optional<std::int64_t> back_to_;
  std::optional<Time> odd_looked_at_;
  std::optional<Time> walked_at_;

  // Of the current selection.
  Time now_{};
  WallTime wall_{};
  std::string wall_text_;
  std::size_t budget_ = 0;
  std::int64_t fresh_resume_ = INT64_MIN;
  DuePosition due_resume_;
  bool fresh_seen_ = false;
  bool due_seen_ = false;
  std::optional<WallTime> next_due_;
};

}  // namespace outbox::sqlite
