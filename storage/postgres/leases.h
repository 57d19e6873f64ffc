// Writes the leases of chosen rows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "storage/postgres/selector.h"
#include "storage/postgres/sql.h"

namespace outbox::postgres {

// Confined to the connection's thread; inside a write transaction.
class Leases {
 public:
  Leases(Connection& connection, const Sql& sql);

  // Sent ahead: what comes of it is for leased().
  Ahead lease(const std::vector<Picked>& rows, std::int64_t incarnation, LeaseId epoch);
  // Of these rows, those that are leased now. A row is left out that another relay is at work on,
  // has leased, or has decided since it was chosen; and rows of its key behind it.
  std::vector<Picked> leased(const std::vector<Picked>& rows, Rows found);
  // Ends the leases of rows that turned out to be decided or deleted since they were chosen.
  void forget_all_but(const std::vector<Message>& loaded, const std::vector<Picked>& leased);

 private:
  void forget(const std::vector<std::string>& keys);

  std::string outbox_;
  Query lease_;
  Query forget_;
};

}  // namespace outbox::postgres
