// This relay's mark in the database, and those of others.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "relay/outbox_store.h"
#include "storage/postgres/query.h"
#include "storage/postgres/settler.h"
#include "storage/postgres/sql.h"

namespace outbox::postgres {

// Who this relay is. Outlives connections; a new number is a new relay to everybody else.
struct Identity {
  std::int64_t incarnation = 0;
  bool registered = false;  // its row has been committed
  LeaseId epoch = 0;        // the highest that this relay has seen of its own
  // Numbers under which its leases were taken away though it lived: what was counted against their
  // rows is to be taken back.
  std::vector<std::int64_t> earlier;
};

std::int64_t new_incarnation();

// What is known at the start of a turn, by the server's clock.
struct Scenery {
  ServerTime now;
  bool replica = false;
  std::int64_t table = 0;  // what the outbox's name stands for now; 0: nothing
  bool circuit_held = false;
  bool paused = false;
  std::string why_held;
  bool circuit_open = false;        // the relays of this outbox say so of their broker's
  std::vector<std::int64_t> ended;  // relays whose leases may be ended
  bool alone = true;                // no other relay is at work
};

struct TakeOver {
  std::size_t leases = 0;
  std::vector<BuriedRow> buried;
};

// Confined to the connection's thread; all but the constructor is called inside a transaction.
class Registration {
 public:
  // `now`: SQL for the server's time. `broker`: see StoreSettings::broker.
  Registration(Connection& connection, const Sql& sql, const std::string& now,
               const std::string& broker);

  // `at_others`: also at relays that hold leases which have run out, or are long gone.
  Scenery look(const Identity& identity, bool at_others);
  struct Mark {
    std::uint64_t turn = 0;
    LeaseId epoch = 0;
    LeaseId next_epoch = 0;  // for a turn that is about to be written
  };
  // The look and lock() together, sent ahead for a turn that is going to write.
  struct Looking {
    Ahead look;
    Ahead lock;
  };
  Looking send_look_and_lock(const Identity& identity);
  Scenery take(Looking looking, const Identity& identity, bool at_others,
               std::optional<Mark>& mark);

  // Our row, locked: nobody takes over from us meanwhile, and no earlier turn of ours is under way
  // any more.
  std::optional<Mark> lock(const Identity& identity);
  // In a transaction of its own, so that a turn of unknown outcome always has a row to find. Leases
  // of relays that have no row any more get one that ends at the same time, so that they do end.
  void write(const Identity& identity, ServerTime lease_until, ServerTime now);
  // Sent ahead. Without an epoch: the one that was drawn last. Returns which one that is.
  Ahead sign(const Identity& identity, std::uint64_t turn, std::optional<LeaseId> epoch,
             std::optional<ServerTime> lease_until);
  static LeaseId signed_epoch(Ahead signing);
  // Ends all leases of a relay; what became of its last attempts is not known.
  void end(const Identity& identity);

  // Ends the leases of a relay that has let them run out, at most `limit` of them, and buries rows
  // that have taken too many relays down.
  TakeOver take_over(std::int64_t ended, const Holder& holder, std::size_t limit, Settler& settler);
  // The relay of that number was not dead.
  void take_back(std::int64_t earlier);

 private:
  static Scenery read(Rows rows);
  static std::optional<Mark> read_mark(Rows rows);
  void look_at_others(const Identity& identity, Scenery& scenery);

  std::string outbox_;
  std::string table_;
  std::string broker_;
  Query look_;
  Query ended_;
  Query lock_;
  Query write_;
  Query adopt_;
  Query sign_;
  Query doubt_;
  Query end_leases_;
  Query erase_;
  Query lock_ended_;
  Query leases_of_;
  Query note_;
  Query end_these_;
  Query take_back_;
};

}  // namespace outbox::postgres
