// Other relays on the same outbox, and what they leave behind when they end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "relay/outbox_store.h"
#include "storage/sqlite/connection.h"
#include "storage/sqlite/lock_file.h"
#include "storage/sqlite/settler.h"
#include "storage/sqlite/sql.h"
#include "storage/sqlite/times.h"

namespace outbox::sqlite {

// A relay whose leases may be ended.
struct Ended {
  std::int64_t incarnation = 0;
  bool dead = false;  // surely; else its leases have merely run out, and it may still be sending
  std::optional<DeadLock> lock;  // held until its leases have been ended
};

struct TakeOver {
  std::size_t leases = 0;
  bool complete = true;  // nothing of it is left
  std::vector<BuriedRow> buried;
  std::vector<Value> rows;  // their keys
};

// Confined to the connection's thread.
class Peers {
 public:
  Peers(Connection& connection, const Sql& sql, std::string outbox, const Clocks& clocks);

  // Whether there are others at all, as of the last look.
  bool alone() const { return alone_; }

  // Looks at the others' leases and locks. Outside of a transaction: it touches files.
  std::vector<Ended> examine(std::int64_t self);

  // Inside a write transaction: ends the leases of an ended relay, at most `limit` of them, and
  // buries rows that have taken too many relays down.
  TakeOver take_over(const Ended& ended, const Holder& holder, std::size_t limit, Settler& settler);

 private:
  struct Peer {
    std::int64_t incarnation = 0;
    bool this_boot = false;
    Time lease_until{};
    std::string lock_path;
    FileIdentity lock;
  };

  std::vector<Peer> others(std::int64_t self);
  std::optional<Ended> judge(const Peer& peer);
  bool still_ended(const Ended& ended);
  std::uint32_t note(const Value& row, bool dead, bool alone);

  Connection& connection_;
  std::string outbox_;
  const Clocks& clocks_;
  std::string directory_;
  bool alone_ = true;
  Query others_;
  Query has_leases_;
  Query lease_until_;
  Query leases_;
  Query fingerprint_;
  Query forget_another_;
  Query note_;
  Query end_lease_;
  Query erase_;
};

}  // namespace outbox::sqlite
