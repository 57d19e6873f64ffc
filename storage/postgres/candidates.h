// The rows that might be leased, from the places where they are found.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "storage/postgres/query.h"
#include "storage/postgres/sql.h"
#include "storage/postgres/walk.h"

namespace outbox::postgres {

// The statement by which never-failed rows are found: $1 the outbox, $2 the time, $3 a limit.
std::string fresh_rows_sql(const Sql& sql);

// One row, as far as small columns tell.
struct Candidate {
  std::string key;
  Place place;
  std::optional<std::string> ordering_key;
  std::uint64_t payload_size = 0;
  std::optional<std::int64_t> holder;  // the incarnation that leased it
  std::optional<std::string> side_state;
  std::int64_t takeovers = 0;
  bool noted = false;  // there is a side row
  std::optional<ServerTime> due;
  std::optional<std::int64_t> last_delay_ms;
  bool asked_to_wait = false;  // by the application, until later
  // Read with all that a message is made of: the row of Candidates::loaded(), and its version.
  std::optional<int> loaded;
  std::optional<TransactionId> version;
};

// What the visitor made of a candidate.
enum class Step {
  taken,   // go on
  mine,    // held by this relay already: go on
  passed,  // not now: go on
  halt,    // stop, and begin with this one next time
};

// Who looks at candidates: at some of them together first, then at each.
struct Visitor {
  std::function<bool()> enough;
  std::function<void(const std::vector<Candidate>&)> prepare;
  std::function<Step(const Candidate&)> visit;
};

// Confined to the connection's thread. Each walk reads a bounded number of index entries and goes
// on where the last one stopped.
class Candidates {
 public:
  Candidates(Connection& connection, const Sql& sql);

  // Before the walks of one selection. `wanted`: how many rows it is about.
  void begin(Time now, ServerTime server, std::size_t wanted);
  // Sends what the walks of fresh and of due rows begin with, so that they do not wait for it one
  // by one. Payloads of fresh rows up to that size are read at once, all of them together no more
  // than so many bytes.
  void send_ahead(std::uint64_t payload_max, std::uint64_t bytes);
  // The columns of a message begin at kMessageColumns.
  Rows& loaded() { return *loaded_; }
  // They take memory.
  void unload() { loaded_.reset(); }
  static constexpr int kMessageColumns = 13;

  // Never-failed rows in the order of the table.
  void walk_fresh(const Visitor& visitor);
  // Failed rows that are due, those first that have been due longest.
  void walk_due(const Visitor& visitor);
  // Failed rows that wait for a broker's recovery since this epoch or an earlier one.
  void walk_waiting(std::int64_t epoch_max, const Visitor& visitor);
  std::optional<Candidate> find(const std::string& key);

  // A row in this place may be leased again: begin there, if the walk is past it.
  void turn_back(const Place& place) {
    fresh_.turn_back(place);
    due_ = {};
  }
  void start_over();
  // What walk_due() took may not have been used after all.
  void start_over_due() {
    due_ = {};
    odd_looked_at_.reset();
  }

  // Whether the walks of this selection have seen everything there is.
  bool exhausted() const { return fresh_seen_ && due_seen_; }
  // Whether the walks have met rows that can't be leased now, but may be at any time.
  bool passed_any() const { return fresh_.passed_any() || due_.passed_any(); }
  // Of failed rows that are not due yet.
  std::optional<ServerTime> next_due();

 private:
  // A chunk that was asked for before its walk needed it.
  template <class Position>
  struct Asked {
    std::optional<Position> from;
    std::size_t chunk = 0;
    Ahead rows;
    std::uint64_t inline_max = 0;
  };

  std::size_t first_chunk() const;
  Ahead ask_fresh(std::size_t chunk);
  bool may_inline() const;
  Ahead ask_fresh_inline(std::size_t chunk, std::uint64_t inline_max);
  std::vector<Candidate> read_inline(Asked<Place> asked);
  Ahead ask_due(std::size_t chunk);
  Ahead ask_beside(const char* state);
  bool visit_all(Rows rows, const Visitor& visitor);
  void walk_beside(const Visitor& visitor);
  void walk_odd(const Visitor& visitor);
  void walk_index(const Visitor& visitor);
  bool is_absurd(const Candidate& candidate) const;

  const Sql& sql_;
  std::string outbox_;
  Query pending_first_;
  Query pending_from_;
  std::optional<Query> inline_first_;
  std::optional<Query> inline_from_;
  Query failed_first_;
  Query failed_from_;
  Query dueless_;
  Query farthest_;
  Query beside_;
  Query waiting_;
  Query one_;
  Query next_due_;

  // Kept between selections.
  Walk<Place> fresh_;
  Walk<DuePlace> due_;
  std::optional<Time> odd_looked_at_;

  // Of the current selection.
  Time now_{};
  ServerTime server_{};
  std::size_t wanted_ = 0;
  bool fresh_seen_ = false;
  bool due_seen_ = false;
  std::optional<Rows> loaded_;
  std::optional<Asked<Place>> asked_fresh_;
  std::optional<Asked<DuePlace>> asked_due_;
  std::map<std::string, Ahead> asked_beside_;  // by state
};

}  // namespace outbox::postgres
