// What one question of an operator needs: a connection and what works on it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "relay/outbox_desk.h"
#include "storage/postgres/sql.h"

namespace outbox::postgres {

// The condition that a row's id is one of these, whatever type the ids have: SQL with the number of
// a parameter, and what belongs there.
struct Wanted {
  std::string condition;
  std::vector<std::string> ids;
};

// A row, behind which the next ones of a list stand.
struct Position {
  std::int64_t place = 0;
  std::string tie;
  std::string key;
};

// Confined to one thread. Opening throws Lost or Unusable, and so may all that is done with it,
// beside ServerError, SchemaChanged and Busy.
struct Desk {
  // `now`: SQL for the time that leases and due times are reckoned from.
  Desk(const StoreSettings& settings, std::string now);

  // Records what an operator did, to one row or to all of them. Inside a write transaction.
  struct Deed {
    std::string action;
    std::string reason;
    std::optional<std::string> key{};  // of the row
    std::optional<std::string> event_id{};
  };
  void audit(const Deed& deed);

  // `parameter` is $2 or another that the condition may use.
  Wanted wanted(const std::vector<std::string>& ids, const std::string& parameter) const;
  // SQL for rows behind a Position, whose members are these parameters.
  static std::string behind(const Sql& sql, const std::string& place, const std::string& tie,
                            const std::string& key);
  // What a SELECT of rows that are to be changed ends with: a row lock, which no table without
  // columns to be written gives us the right to.
  std::string locked() const;
  // A column's equality with a text parameter; by its index where the type allows it.
  std::string equals(const std::string& column, const std::string& parameter) const;

  // A column as people read it: a time in RFC 3339, bytes in hexadecimal, a text as it is.
  std::string readable(const std::string& column) const;
  // The time of an event as readable(): what is none stays as it is.
  std::string shown_time(const std::string& text) const;
  // An id or a key as the table keeps it: 16 bytes are a GUID.
  std::string shown_id(const std::string& column, std::string value) const;

  // Dead letters that `filter` lets through, be it the row or its side row that says so; the
  // outbox's name is $1. `rest` ends both halves: an order, a limit.
  std::string select_dead(const std::string& columns, const std::string& filter,
                          const std::string& rest) const;

  // What the column says, or what is kept beside the row in its place ("r" stands for that).
  static std::string either(const std::string& column, const std::string& beside);

  const StoreSettings settings;
  const std::string now;
  Connection connection;
  Sql sql;
  std::string outbox;
};

// SQL: a timestamptz as RFC 3339 in UTC, as long as every other; NULL stays NULL.
std::string rfc3339(const std::string& time);

// A read-only transaction that sees one moment.
class Snapshot {
 public:
  explicit Snapshot(Connection& connection);
  void end() { transaction_.commit(); }

 private:
  Transaction transaction_;
};

// What `work` makes of the value; an exception is the answer's error, beside what was done before.
template <class Value, class Work>
Answer<Value> answered(const Work& work) {
  Answer<Value> answer;
  try {
    work(answer.value);
  } catch (const NewerTables& error) {
    answer.error = error.what();
    answer.newer = true;
  } catch (const std::exception& error) {
    answer.error = error.what();
  }
  return answer;
}

}  // namespace outbox::postgres
