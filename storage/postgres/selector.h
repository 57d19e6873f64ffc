// Chooses the rows that a turn leases.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "relay/outbox_store.h"
#include "storage/mapping/row_handle.h"
#include "storage/postgres/candidates.h"
#include "storage/postgres/key_owners.h"

namespace outbox::postgres {

// A row to be leased.
struct Picked {
  std::string key;
  Place place;
  bool alone = false;
  bool noted = false;  // there is a side row
  std::optional<std::string> ordering_key;
  std::optional<int> loaded;  // see Candidate
  std::optional<TransactionId> version;
};

struct Selection {
  std::vector<Picked> rows;  // in the order of the table
  bool more = false;         // there may be rows that are due and were not picked
  bool wants_solitude = false;
  bool waiting = false;  // there are rows that may be leased before anything is told of them
  std::optional<ServerTime> next_due;
};

// What a selection depends on besides the request.
struct Scene {
  std::int64_t incarnation = 0;
  Time now{};
  ServerTime server{};
};

// Confined to the connection's thread; inside a transaction. Reads small columns only, a bounded
// number of rows a call.
class Selector {
 public:
  Selector(Connection& connection, const Sql& sql);

  // A selection begins, for select(): what it is going to read is sent ahead.
  void begin(const LeaseRequest& request, const Scene& scene);
  Selection select();
  // Where the chosen rows were read that are loaded.
  Rows& loaded() { return candidates_.loaded(); }
  void unload() { candidates_.unload(); }

  // Forgets where it was: what it has chosen was not leased.
  void start_over();

  // These rows were decided, or will be due later: rows behind them may be free.
  void settled(const std::vector<RowHandle>& rows);
  // These may be leased again at once.
  void released(const std::vector<RowHandle>& rows);
  // This one of the last selection could not be leased: somebody has it locked. It is tried again
  // after a while, which grows.
  void pass_over(const Picked& row);

 private:
  void choose();
  bool take_solitary();
  void pick_fresh(std::size_t target);
  void pick_retries(std::size_t target);
  void pick_in_table_order();
  std::vector<Candidate> collect_retries();
  Visitor picking(std::size_t target);
  bool enough(std::size_t target) const;

  void prepare(const std::vector<Candidate>& candidates);
  Step pick(const Candidate& candidate);
  Step pass();
  bool key_is_free(const Candidate& candidate);
  bool wants_to_be_alone(const Candidate& candidate) const;
  bool fits(std::uint64_t size) const;
  bool is_passed_over(const std::string& key);

  const bool places_are_keys_;
  Candidates candidates_;
  KeyOwners owners_;

  // Kept between calls: a memory only, and bounded.
  std::unordered_map<std::string, Place> waiting_behind_;  // a row -> the first that it held back
  struct PassedOver {
    Time until;
    Duration wait;
  };
  std::unordered_map<std::string, PassedOver> passed_over_;  // rows that others have locked
  std::optional<std::string> solitary_;

  // Of the current call.
  LeaseRequest request_;
  Scene scene_;
  std::uint64_t bytes_ = 0;
  bool stopped_ = false;
  std::optional<Duration> next_try_;  // of a row that was passed over
  Selection selection_;
  std::unordered_set<std::string> picked_;  // keys
};

}  // namespace outbox::postgres
