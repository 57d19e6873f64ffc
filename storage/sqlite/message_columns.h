// The columns of a row that make up a message.
#pragma once

#include <cstdint>
#include <string>

#include "relay/message.h"
#include "storage/mapping/mapping.h"
#include "storage/sqlite/sql.h"
#include "storage/sqlite/time_reader.h"

namespace outbox::sqlite {

// A SELECT of them. The payload's column is read only where `loads`, a condition, holds; always if
// that is empty.
std::string message_sql(const Sql& sql, const std::string& loads, const std::string& where);

// Some columns of it.
constexpr int kIdColumn = 0;
constexpr int kKeyColumn = 11;
constexpr int kPlaceColumn = 12;

// Confined to the connection's thread.
class MessageColumns {
 public:
  MessageColumns(Connection& connection, const Mapping& mapping, const Clocks& clocks)
      : mapping_(mapping), clocks_(clocks), times_(connection, mapping.times) {}

  // The message as far as the row itself tells, without its name and history. What is wrong with
  // the row is in its defect. `loads`: the payload was asked for.
  Message read(const Query::Rows& rows, std::uint64_t payload_size, bool loads);

 private:
  void read_times(const Query::Rows& rows, Message& message);

  const Mapping mapping_;
  const Clocks& clocks_;
  TimeReader times_;
};

}  // namespace outbox::sqlite
