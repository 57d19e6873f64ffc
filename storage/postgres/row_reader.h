// Turns leased rows into messages.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_set>
#include <vector>

#include "relay/message.h"
#include "storage/postgres/leases.h"
#include "storage/postgres/selector.h"
#include "storage/postgres/side_rows.h"

namespace outbox::postgres {

class MessageFields;

// What of a message is read at all.
struct MessageBounds {
  std::string payload;    // SQL: larger ones are left out,
  int value = 0;          // and larger values of all other columns, in bytes
  std::string condition;  // SQL: without it, the payload is left out, too
};
// What a message is made of, for a statement that reads outbox rows as o. The last column tells
// whether a value was left out.
std::string message_columns(const Sql& sql, const MessageBounds& bounds);

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
  Ahead find(const std::vector<Picked>& rows, std::uint64_t payload_max);
  std::vector<Message> messages(Rows found, const std::vector<Picked>& leased, LeaseId lease,
                                std::uint64_t payload_max, ServerTime now);
  // Of rows that were loaded before: the columns of a message begin at `first`.
  std::vector<Message> loaded_messages(Rows& rows, int first, const std::vector<Picked>& leased,
                                       LeaseId lease, std::uint64_t payload_max, ServerTime now);
  // Sent ahead: what has been noted beside rows that were loaded. Then the keys of those rows that
  // it is about.
  Ahead find_notes(const std::vector<Picked>& rows);
  static std::unordered_set<std::string> noted(Rows notes, Rows& rows, int first,
                                               const std::vector<Picked>& leased);

  // The rows that a relay leased under that epoch.
  Leased leased_under(std::int64_t incarnation, LeaseId epoch);

 private:
  Message read(const MessageFields& rows, std::uint64_t payload_max, ServerTime now) const;
  static void read_history(const SideRow& side, ServerTime now, Message& message);

  const Sql& sql_;
  std::string outbox_;
  bool id_is_bytes_;
  bool key_is_bytes_;
  SideRows& side_rows_;
  Query load_;
  Query notes_;
  Query leased_;
};

}  // namespace outbox::postgres
