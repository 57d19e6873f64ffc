// Writes verdicts to rows.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "relay/outbox_store.h"
#include "storage/mapping/attempt_text.h"
#include "storage/mapping/row_handle.h"
#include "storage/sqlite/attempt_log.h"
#include "storage/sqlite/lease_ends.h"
#include "storage/sqlite/side_rows.h"
#include "storage/sqlite/sql.h"

namespace outbox::sqlite {

// A row refused to be written, outside a savepoint: undo the transaction, run it again carefully.
struct NeedsCare : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A row larger than this is never rewritten, since SQLite writes the record as a whole: its state
// is kept beside it.
constexpr std::uint64_t kRewriteMax = 1u << 20;     // of payload
constexpr std::uint64_t kRewriteSlack = 64u << 10;  // of all the rest

// Who settles, in which turn.
struct Holder {
  std::int64_t incarnation = 0;
  LeaseId epoch = 0;
  WallTime now;
  std::string now_text;
  Value now_column;  // as the outbox's own columns write it
};

// What settling came to.
struct Settled {
  std::size_t fenced = 0;
  std::size_t isolated = 0;
  std::string isolated_error;
  std::vector<std::int64_t> freed;  // places of the rows whose lease has ended
  std::vector<Value> released;      // keys of those that may be leased again at once
};

// Confined to the connection's thread; called inside a write transaction.
class Settler {
 public:
  Settler(Connection& connection, const Sql& sql, std::string outbox, SideRows& side_rows);

  // In this order.
  void settle(std::span<const Settlement> settlements, const Holder& holder, Settled& settled);

  // Buries a row that has no lease and that took its relays down.
  BuriedRow bury_crashed(const Value& row, std::uint32_t crashes, const Holder& holder);

  // Each row is written under a savepoint of its own: slower, but one refusal spoils no other.
  void set_careful(bool careful) { careful_ = careful; }

  void keep_attempts(AttemptsKept kept) { attempts_.keep(kept); }

 private:
  enum class Written { in_place, beside, gone };
  // The outbox's row, or its stand-in beside it, is to become this.
  struct Change {
    const char* state = nullptr;
    std::optional<std::string> due;
    std::optional<std::string> error;
    std::optional<std::string> dead_reason;
    std::uint32_t charge = 0;
  };

  // A settlement with the row that it is about.
  struct Item {
    const Settlement* settlement = nullptr;
    RowHandle row;
  };

  static std::size_t run_length(std::span<const Item> items);
  bool end_run(std::span<const Item> run, const Holder& holder);
  void settle(const Item& item, const std::optional<EndedLease>& lease, const Holder& holder,
              Settled& settled);
  static bool names(const RowHandle& handle, const Query::Rows& rows);
  bool is_the_same_row(const RowHandle& row);
  void settle_late_delivery(const RowHandle& handle, const Settlement& settlement,
                            const Holder& holder, Settled& settled);
  void settle_leased(const RowHandle& handle, const EndedLease& lease, const Settlement& settlement,
                     const Holder& holder, Settled& settled);
  void note_attempt(SideRow& side, const Settlement& settlement, const Holder& holder);

  static Change change_for(const Settlement& settlement, const Holder& holder);
  Written write(const RowHandle& handle, bool large, SideRow& side, const Change& change,
                const Holder& holder, Settled& settled);
  std::optional<int> write_in_place(const RowHandle& handle, const SideRow& side,
                                    const Change& change, const Holder& holder, Settled& settled);
  static void isolate(const Value& row, const std::string& error, Settled& settled);
  int update(const RowHandle& handle, const SideRow& side, const Change& change,
             const Holder& holder);
  Written write_beside(const RowHandle& handle, SideRow& side, const Change& change,
                       const Holder& holder);
  void keep_side(const Value& row, const SideRow& side, const Change& change, bool existed);
  void audit_death(const Value& row, const Change& change, const Holder& holder);

  bool holds(const char* state) const;
  std::uint64_t payload_bytes(const Value& row);

  Connection& connection_;
  const Mapping mapping_;
  std::string outbox_;
  SideRows& side_rows_;
  SizeProbe sizes_;
  AttemptLog attempts_;
  LeaseEnds leases_;
  bool careful_ = false;
  std::vector<Item> items_;  // of the settlements under way
  // Rows whose trigger undoes the whole transaction: not tried again on this connection.
  std::map<Value, std::string> untouchable_;
  std::optional<Query> mark_processed_;
  std::optional<Query> mark_failed_;
  std::optional<Query> mark_dead_;
  Query look_;
  Query audit_;
  Query savepoint_;
  Query release_savepoint_;
  Query undo_savepoint_;
};

}  // namespace outbox::sqlite
