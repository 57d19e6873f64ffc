// Writes the leases of chosen rows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "storage/postgres/selector.h"
#include "storage/postgres/sql.h"

namespace outbox::postgres {

// What came of leasing.
struct Leased {
  LeaseId epoch = 0;  // 0: nothing was leased
  std::vector<Picked> rows;
  std::vector<std::string> left;  // keys that are leased all the same: to be ended
};

// Confined to the connection's thread; inside a write transaction.
class Leases {
 public:
  Leases(Connection& connection, const Sql& sql);

  // Sent ahead: what comes of it is for leased(). `as_loaded`: those only that are still as they
  // were when they were read.
  Ahead lease(const std::vector<Picked>& rows, bool as_loaded, std::int64_t incarnation);
  // Which of the rows are leased now. A row is left out that another relay is at work on, has
  // leased, or has decided since it was chosen; and rows of its key behind it.
  static Leased leased(const std::vector<Picked>& rows, Rows found);
  // The keys of leased rows that turned out to be decided or deleted since they were chosen: their
  // leases are to be ended.
  static std::vector<std::string> gone(const std::vector<Message>& loaded,
                                       const std::vector<Picked>& leased);
  // Ends leases of this relay without a verdict.
  void end(const std::vector<std::string>& keys, std::int64_t incarnation, LeaseId epoch);

 private:
  std::string outbox_;
  Query lease_;
  Query end_;
};

}  // namespace outbox::postgres
