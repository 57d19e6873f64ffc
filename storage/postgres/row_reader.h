// Turns leased rows into messages.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "relay/message.h"
#include "storage/postgres/selector.h"
#include "storage/postgres/side_rows.h"

namespace outbox::postgres {

// Confined to the connection's thread; inside the transaction that has leased the rows.
class RowReader {
 public:
  RowReader(Connection& connection, const Sql& sql, SideRows& side_rows);

  // In the order of the table; without those that are not open any more, or gone. Read after the
  // leases were written, so that whatever was decided before them is seen.
  std::vector<Message> load(const std::vector<Picked>& rows, LeaseId lease,
                            std::uint64_t payload_max, ServerTime now);
  // The same in two steps, since what is leased is known only when it has been read. Those that
  // were not are left out of the messages.
  Rows find(const std::vector<Picked>& rows, std::uint64_t payload_max);
  std::vector<Message> messages(Rows found, const std::vector<Picked>& leased, LeaseId lease,
                                std::uint64_t payload_max, ServerTime now);

  // The rows that a relay leased under that epoch.
  std::vector<Picked> leased_under(std::int64_t incarnation, LeaseId epoch);

 private:
  Message read(const Rows& rows, std::uint64_t payload_max, ServerTime now) const;
  static void read_history(const SideRow& side, ServerTime now, Message& message);

  const Sql& sql_;
  std::string outbox_;
  SideRows& side_rows_;
  Query load_;
  Query leased_;
};

}  // namespace outbox::postgres
