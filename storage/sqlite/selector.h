// Chooses the rows that a turn leases.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "relay/outbox_store.h"
#include "storage/mapping/blocked_keys.h"
#include "storage/sqlite/candidates.h"
#include "storage/sqlite/connection.h"
#include "storage/sqlite/sql.h"
#include "storage/sqlite/time_reader.h"
#include "storage/sqlite/times.h"

namespace outbox::sqlite {

// A row to be leased.
struct Picked {
  Value key;
  std::int64_t place = 0;
  std::uint64_t payload_size = 0;
  bool alone = false;
  bool noted = false;  // there is a side row
};

struct Selection {
  std::vector<Picked> rows;  // in the order of the table
  bool more = false;         // there may be rows that are due and were not picked
  bool wants_solitude = false;
  std::optional<WallTime> next_due;
};

// What a selection depends on besides the request.
struct Scene {
  std::int64_t incarnation = 0;
  std::size_t limit = 0;
  Time now{};
  WallTime wall{};
  bool changed = false;    // another connection has committed since the last selection
  bool look_only = false;  // stop at the first row that could be leased
};

// Confined to the connection's thread. Reads small columns only, a bounded number of rows a call.
class Selector {
 public:
  Selector(Connection& connection, const Sql& sql, std::string outbox);

  // Why such rows can't be selected, and what to do; nothing if they can. The table may grow into
  // it: what is held must still be settled then.
  std::optional<std::string> obstacle(const LeaseRequest& request);

  // Needs that there is no obstacle.
  Selection select(const LeaseRequest& request, const Scene& scene);

  // Forgets where it was: what it has chosen was not leased.
  void start_over();

  // The rows in these places were decided, or will be due later: rows behind them may be free.
  void settled(const std::vector<std::int64_t>& places);
  // These may be leased again at once.
  void released(const std::vector<Value>& keys);

 private:
  void choose();
  bool take_solitary();
  void pick_fresh(std::size_t target);
  void pick_retries(std::size_t target);
  void pick_in_table_order();
  std::vector<Candidate> collect_retries();
  bool enough(std::size_t target) const;

  Step pick(const Candidate& candidate);
  bool waits(const Candidate& candidate);
  bool key_is_free(const Candidate& candidate);
  std::optional<std::int64_t> blocker_of(const Candidate& candidate, std::int64_t after);
  std::optional<std::int64_t> dead_before(const Candidate& candidate, std::int64_t after);
  bool wants_to_be_alone(const Candidate& candidate) const;
  bool fits(std::uint64_t size) const;
  std::uint64_t size_of(const Candidate& candidate);
  void unblock(std::int64_t place);

  const Sql& sql_;
  std::string outbox_;
  Candidates candidates_;
  SizeProbe sizes_;
  TimeReader times_;
  Query open_of_key_;
  Query dead_of_key_;
  std::optional<Query> count_;  // where no index of keys helps

  // Kept between calls.
  BlockedKeys blocked_;
  std::optional<Value> solitary_;

  // Of the current call.
  LeaseRequest request_;
  Scene scene_;
  std::uint64_t bytes_ = 0;
  bool stopped_ = false;
  Selection selection_;
  std::unordered_set<std::int64_t> picked_;  // places
  std::unordered_map<std::string, std::int64_t> free_up_to_;
};

}  // namespace outbox::sqlite
