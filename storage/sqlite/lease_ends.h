// How leases end when their rows are settled.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "relay/outbox_store.h"
#include "storage/mapping/value.h"
#include "storage/sqlite/connection.h"

namespace outbox::sqlite {

// What the lease says of its row.
struct EndedLease {
  bool large = false;  // too large to be rewritten
  bool noted = false;  // there is a side row
};

// Confined to the connection's thread; called inside a write transaction.
class LeaseEnds {
 public:
  LeaseEnds(Connection& connection, std::string outbox);

  // Nothing if there is no such lease.
  std::optional<EndedLease> end(const Value& row, LeaseId epoch, std::int64_t incarnation);

  // Ends the leases of `count` rows with keys from `first` on, if all of them are held and plain:
  // neither large nor noted. Else changes nothing and returns false.
  bool end_run(std::int64_t first, std::size_t count, LeaseId epoch, std::int64_t incarnation);

  // Whoever holds it.
  void end_any(const Value& row) { end_any_.run(outbox_, row); }

 private:
  std::string outbox_;
  Query end_plain_;
  Query end_;
  Query end_any_;
  Query end_run_;
  Query savepoint_;
  Query release_;
  Query undo_;
};

}  // namespace outbox::sqlite
