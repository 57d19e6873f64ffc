// What one question of an operator needs: a connection and what works on it.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "relay/outbox_desk.h"
#include "storage/sqlite/side_rows.h"
#include "storage/sqlite/sql.h"
#include "storage/sqlite/time_reader.h"

namespace outbox::sqlite {

// Confined to one thread. Opening throws Unusable or SQLite::Exception, and so may all that is done
// with it.
struct Desk {
  // The relay's own tables: who only looks needs none, and makes none; who writes makes those that
  // are missing, if the settings allow it.
  enum class Tables { looked_at, needed, made };

  Desk(const std::string& path, const Mapping& mapping, const Clocks& clocks_used,
       std::chrono::milliseconds patience, Tables tables);

  // Records what an operator did, to one row or to all of them. Inside a write transaction.
  struct Deed {
    std::string action;
    std::string reason;
    std::optional<Value> key;  // of the row
    std::optional<std::string> event_id;
  };
  void audit(const Deed& deed);

  // Whether a row is one of these, whatever kind of id the table has: puts the ids where wanted()
  // finds them. Both in one question.
  void want(const std::vector<std::string>& ids);
  std::string wanted() const;

  // A column's time as people read it. What is none stays as it is.
  std::string shown_time(std::string text);

  // What the column says, or what is kept beside the row in its place ("r" stands for that).
  static std::string either(const std::string& column, const std::string& beside);

  const Clocks& clocks;
  Connection connection;
  Sql sql;
  std::string outbox;
  SideRows side_rows;
  TimeReader times;
  Query audit_it;
};

}  // namespace outbox::sqlite
