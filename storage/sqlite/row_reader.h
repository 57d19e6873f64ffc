// Turns leased rows into messages.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "relay/message.h"
#include "storage/sqlite/message_columns.h"
#include "storage/sqlite/selector.h"
#include "storage/sqlite/side_rows.h"

namespace outbox::sqlite {

struct Loaded {
  std::vector<Message> messages;
  std::vector<Value> vanished;  // keys of rows that were leased, but are no longer in the outbox
};

// Confined to the connection's thread. Reads after the leases are on disk, in one short snapshot,
// so that the write lock need not be held for it.
class RowReader {
 public:
  RowReader(Connection& connection, const Sql& sql, std::string outbox, SideRows& side_rows,
            const Clocks& clocks);

  Loaded load(const std::vector<Picked>& rows, LeaseId lease, std::uint64_t payload_max);

  // The rows that this relay leased under that epoch.
  std::vector<Picked> leased_under(std::int64_t incarnation, LeaseId epoch);

 private:
  bool load_run(std::span<const Picked> rows, LeaseId lease, Loaded& loaded);
  void load_each(std::span<const Picked> rows, LeaseId lease, std::uint64_t payload_max,
                 Loaded& loaded);
  std::optional<Message> read(const Picked& picked, std::uint64_t payload_max);
  std::optional<Message> unreadable(const Picked& picked, std::uint64_t limit);
  Message named(const Query::Rows& rows, const Picked& picked, bool loads);
  Message complete(Message message, const Picked& picked, LeaseId lease);
  void read_history(const Picked& picked, Message& message);

  Connection& connection_;
  std::string outbox_;
  SideRows& side_rows_;
  MessageColumns columns_;
  SizeProbe sizes_;
  Query one_;
  Query run_;
  Query leased_;
  Query fingerprint_;
};

}  // namespace outbox::sqlite
