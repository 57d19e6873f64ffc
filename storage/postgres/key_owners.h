// Which rows of an ordering key may travel.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "storage/postgres/candidates.h"

namespace outbox::postgres {

// Confined to the connection's thread; inside a transaction. A key is locked first, in a statement
// of its own, and its rows are read after that: what another relay has done to them by then is
// seen, and it can do nothing more before this transaction ends. Locks are shared out by a hash, so
// that their number is bounded.
class KeyOwners {
 public:
  KeyOwners(Connection& connection, const Sql& sql);

  // For one selection by this relay; `rows_max` of a key are looked at.
  void begin(std::int64_t incarnation, bool dead_blocks, std::size_t rows_max);
  // Locks and reads those keys that were not asked for before.
  void read(const std::set<std::string>& keys);

  // Whether all undecided rows of the key that come before are held by this relay, or picked. If
  // not, `blocker` is the row that it waits for, if that is known.
  bool is_free(const Candidate& candidate, std::optional<std::string>& blocker) const;
  void pick(const Candidate& candidate);
  // A key was in another relay's hands just then.
  bool met_others() const { return met_others_; }

 private:
  struct Row {
    std::string key;
    Place place;
    bool held = false;  // by this relay, or picked
  };
  struct View {
    bool locked = false;
    std::vector<Row> rows;  // undecided, in order
    std::optional<Row> dead;
    std::size_t held = 0;  // of the first rows, so many are held
  };

  void lock(const std::vector<std::string>& keys);
  void read_rows(const std::vector<std::string>& keys);
  static void count_held(View& view);

  std::string outbox_;
  bool has_keys_;
  Query lock_;
  std::optional<Query> open_;
  std::optional<Query> open_and_dead_;

  std::int64_t incarnation_ = 0;
  bool dead_blocks_ = true;
  std::size_t rows_max_ = 0;
  bool met_others_ = false;
  std::map<std::string, View> views_;
};

}  // namespace outbox::postgres
