// Writes verdicts to rows.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "relay/backends.h"
#include "relay/outbox_store.h"
#include "storage/postgres/side_rows.h"
#include "storage/postgres/sql.h"

namespace outbox::postgres {

// Who settles, in which turn.
struct Holder {
  std::int64_t incarnation = 0;
  LeaseId epoch = 0;
  ServerTime now;
};

// What settling came to.
struct Settled {
  std::size_t locked = 0;  // rows that others have locked: their state was kept beside for now
  std::vector<std::string> beside;    // of them, those to be written by write_again()
  std::vector<Settlement> postponed;  // to be settled again: locked, and the lease was lost before
  std::size_t fenced = 0;
  std::size_t isolated = 0;
  std::string isolated_error;
  std::vector<RowHandle> freed;     // rows whose lease has ended
  std::vector<RowHandle> released;  // those that may be leased again at once
};

// A row that has no lease and that took its relays down.
struct Killer {
  std::string key;
  std::uint32_t crashes = 0;
};

// Confined to the connection's thread; called inside a write transaction. All rows of a turn are
// written by a few statements.
class Settler {
 public:
  Settler(Connection& connection, const Sql& sql, SideRows& side_rows);

  // Settles in three steps, so that the server is waited for as seldom as possible.
  struct Settling;
  // Sends what ends the leases.
  Settling begin(std::span<const Settlement> settlements, std::int64_t incarnation);
  // Ends them: `settled` tells of them. The last statement may be sent ahead.
  void go_on(Settling& settling, const Holder& holder, Settled& settled);
  void finish(Settling& settling, const Holder& holder, Settled& settled);
  void settle(std::span<const Settlement> settlements, const Holder& holder, Settled& settled);
  std::vector<BuriedRow> bury(const std::vector<Killer>& killers, const Holder& holder);
  // Rows whose state was kept beside while others had them locked: those that are free now get it.
  // Waits for nobody. Returns the keys of those that are still locked.
  std::vector<std::string> write_again(const std::vector<std::string>& keys, const Holder& holder);

  // Rows are written under savepoints: slower, but one refusal spoils no other. Without care it
  // comes to light by any statement until the commit, and the transaction is to be run again with
  // care. `fresh`: the statements were made since something was found missing, so that a row's
  // trigger lacks it.
  void set_careful(bool careful, bool fresh) {
    careful_ = careful;
    fresh_ = fresh;
  }
  // Rows that others have locked are not waited for. It takes one more statement.
  void set_wary(bool wary) { wary_ = wary; }
  void keep_attempts(AttemptsKept kept) { kept_ = kept; }

 private:
  // The outbox's row, or its stand-in beside it, is to become this.
  struct Change {
    const char* state = nullptr;
    std::optional<ServerTime> due;
    std::optional<std::string> error;
    std::optional<std::string> dead_reason;
    std::uint32_t charge = 0;
  };
  // What the outbox's row says. Locked by us, unless others have it locked.
  struct Look {
    std::string state;
    std::int64_t retry_count = 0;
    std::uint32_t fingerprint = 0;
    std::string event_id;
    std::string event_type;
    bool locked = false;  // by others
  };
  using Looks = std::map<std::string, Look>;
  enum class Written { not_yet, in_place, beside, gone };
  struct Item {
    const Settlement* settlement = nullptr;
    RowHandle handle;
    std::string key;
    bool late = false;
    bool locked = false;
    bool refused = false;
    bool had_side = false;
    SideRow side;
    Change change;
    Written written = Written::not_yet;
  };
  using Items = std::vector<Item*>;

  Settling begin(const std::vector<const Settlement*>& settlements, std::int64_t incarnation);
  static void end_leases(Settling& settling, Settled& settled);
  void end_leases_of_late(std::vector<Item>& items, const Looks& looks);
  void read_sides(std::vector<Item>& items);
  bool may_still_settle(const Item& item, const Looks& looks) const;
  static void note_attempt(SideRow& side, const Settlement& settlement, const Holder& holder);
  Change change_for(const Settlement& settlement, const Holder& holder) const;

  bool may_send_ahead(const Settling& settling) const;
  void write(const Items& items, const Holder& holder, Settled& settled);
  void write_rest(const Items& items, const Holder& holder, Settled& settled);
  void write_in_place(const Items& items, const char* state, const Holder& holder,
                      Settled& settled);
  void try_update(const Items& items, const char* state, const Holder& holder, Settled& settled);
  std::optional<Ahead> update(const Items& items, const char* state, const Holder& holder);
  static std::unordered_set<std::string> keys_of(std::optional<Ahead> update);
  static void mark(const Items& items, const std::unordered_set<std::string>& changed);
  static void clear_sides(const Items& items);
  static void write_beside(Item& item, const Looks& looks, const Holder& holder);
  void refuse(Item& item, const std::string& error, Settled& settled);
  static void isolate(const Item& item, const std::string& error, Settled& settled);
  Items keep(const Items& items, Settled& settled);
  void log(const Items& items, const Holder& holder);
  void audit_deaths(const Items& items, const Holder& holder);

  bool holds(const char* state) const;
  Looks look(const std::vector<std::string>& keys);
  Looks look_at_free(const std::vector<std::string>& keys);
  static void read_looks(Rows rows, bool locked, Looks& looks);
  void find_locked(const Items& items);
  static bool is_locked(const std::string& key, const Looks& looks);
  static bool is(const char* state, const char* name) { return std::string_view(state) == name; }
  static std::vector<std::string> keys_not_written(const Items& items);

  Connection& connection_;
  const Sql& sql_;
  std::string outbox_;
  SideRows& side_rows_;
  AttemptsKept kept_ = AttemptsKept::failures;
  bool careful_ = false;
  bool fresh_ = false;
  bool wary_ = false;
  std::set<std::string> refusing_;  // rows that refused before: written one by one
  Query end_leases_;
  Query end_any_leases_;
  std::optional<Query> mark_processed_;
  std::optional<Query> mark_failed_;
  std::optional<Query> mark_dead_;
  Query look_;
  Query look_at_free_;
  Query peek_;
  Query audit_;
  Query attempts_;
};

// Settlements under way in a transaction.
struct Settler::Settling {
  std::vector<Item> items;
  std::vector<Ahead> ended;              // leases
  std::size_t invalid = 0;               // settlements that name no row
  std::vector<const Settlement*> later;  // about rows that have an item already
  Items active;                          // items that are to be written
  std::optional<Ahead> update;           // writes all of them, and was sent
};

}  // namespace outbox::postgres
