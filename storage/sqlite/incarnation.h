// This relay's mark in the database, and those of others.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "relay/outbox_store.h"
#include "storage/sqlite/connection.h"
#include "storage/sqlite/lock_file.h"
#include "storage/sqlite/selector.h"
#include "storage/sqlite/settler.h"
#include "storage/sqlite/sql.h"
#include "storage/sqlite/times.h"

namespace outbox::sqlite {

// Who this relay is. Outlives connections; a new number is a new relay to everybody else.
struct Identity {
  std::int64_t incarnation = 0;  // random: known before it is written, so that a registration
                                 // whose outcome is unknown can be found again
  bool registered = false;
  LeaseId epoch = 0;  // the highest that this relay has seen of its own
  std::unique_ptr<LockFile> lock;
};

std::int64_t new_incarnation();

// The row of outbox_relay_incarnations that is ours. Confined to the connection's thread; all but
// the constructor is called inside a write transaction.
class Registration {
 public:
  Registration(Connection& connection, const Sql& sql, std::string outbox, const Clocks& clocks);

  // What the database knows of this relay's last turn.
  struct Mark {
    std::uint64_t turn = 0;
    LeaseId epoch = 0;
  };
  std::optional<Mark> read(const Identity& identity);
  void write(const Identity& identity, const Mark& mark, Time lease_until);
  // Records the turn and renews all leases by one row. `lease_until` absent: they end as before.
  // False if this relay is not registered.
  bool sign(const Identity& identity, const Mark& mark, std::optional<Time> lease_until);
  void erase(const Identity& identity);
  // Ends the leases of a relay. Their rows may have been sent.
  void end_leases(std::int64_t incarnation);

  // The last one given to anybody.
  LeaseId last_epoch();
  // A fencing epoch that is higher than any before it.
  LeaseId next_epoch(LeaseId seen);

  void lease(const Identity& identity, LeaseId epoch, std::span<const Picked> rows);
  void forget(const std::vector<Value>& keys);

 private:
  void lease_one(const Identity& identity, LeaseId epoch, const Picked& picked);
  void forget_notes_of_others(std::int64_t incarnation);

  std::string outbox_;
  const Clocks& clocks_;
  Query read_;
  Query write_;
  Query sign_;
  Query sign_only_;
  Query erase_;
  Query end_leases_;
  Query of_others_;
  Query forget_note_;
  Query doubt_;
  Query last_epoch_;
  Query raise_epoch_;
  Query lease_;
  Query lease_plain_;
  Query forget_;
};

}  // namespace outbox::sqlite
