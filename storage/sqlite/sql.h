// The pieces of SQL that depend on a mapping.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "storage/mapping/mapping.h"
#include "storage/sqlite/conditions.h"
#include "storage/sqlite/connection.h"

namespace outbox::sqlite {

// States stand in the SQL as literals: with a bound value a partial index would not be used.
class Sql {
 public:
  // Names an index in a query only if the database has it: without, the query is right but slow.
  Sql(Connection& connection, Mapping mapping);

  const Mapping& mapping() const { return mapping_; }

  // "o" stands for the outbox in all of these.
  std::string table() const { return quoted(mapping_.table); }
  std::string column(const std::string& name) const { return kAlias + quoted(name); }
  // The same, or NULL if the table has no such column.
  std::string value(const std::string& name) const { return name.empty() ? "NULL" : column(name); }
  std::string payload() const { return expanded(mapping_.payload_sql, mapping_.columns.payload); }
  std::string headers() const { return expanded(mapping_.headers_sql, mapping_.columns.headers); }
  std::string row_key() const { return column(mapping_.row_key()); }
  // Rows without a key can't be named, and are left alone.
  std::string has_key() const {
    return fmt::format("typeof({}) NOT IN ('null', 'real')", row_key());
  }
  // Of the event's id, as a row's handle has it.
  std::string fingerprint() const;
  // The rowid: rises with each insert.
  std::string order() const { return column(mapping_.order); }

  std::string from_pending() const { return from(names_.pending); }
  std::string from_failed() const { return from(names_.failed); }
  std::string from_dead() const { return from(names_.dead); }
  std::string from_open_key() const { return from(names_.open_key); }
  std::string from_dead_key() const { return from(names_.dead_key); }
  // All that are open, whatever their state is called.
  std::string from_open() const { return mapping_.holds_failed() ? from("") : from_pending(); }

  // Without, a query walks the whole table.
  bool has_key_index() const { return !names_.open_key.empty(); }
  bool has_pending_index() const { return !names_.pending.empty(); }
  // The statements that make the index of undecided rows by ordering key, and the one of pending
  // rows.
  std::string create_key_index() const;
  std::string create_pending_index() const;

  // How many rows the table has, as far as `most`. Walks so far: not to be asked each turn.
  std::string count(std::int64_t most) const;

  // As far as the table's own columns tell.
  std::string is_pending() const { return sqlite::is_pending(mapping_, kAlias); }
  std::string is_failed() const { return sqlite::is_failed(mapping_, kAlias); }
  std::string is_processed() const { return sqlite::is_processed(mapping_, kAlias); }
  std::string is_dead() const { return sqlite::is_dead(mapping_, kAlias); }
  std::string is_open() const { return sqlite::is_open(mapping_, kAlias); }

  // The relay's own name of the outbox's state; NULL for one that is not ours.
  std::string state_name() const;

  // A state as it stands in the status column.
  std::string state_literal(const std::string& state) const {
    return sqlite::state_literal(mapping_, state);
  }

  // The row's key as it is compared with the side tables'.
  std::string key_beside() const;
  // Joins with side rows (r) of the outbox named by ?1, and with leases (l), too.
  std::string side_row() const;
  std::string beside() const;
  // From side rows to the outbox; the index may be empty.
  std::string from_side(const std::string& index) const;
  // Dead letters that `filter` lets through, be it the row or its side row that says so.
  std::string select_dead(const std::string& columns, const std::string& filter) const;
  // The state of a row, by its side row or itself, where no join is possible.
  std::string whole_state() const;

 private:
  static constexpr const char* kAlias = "o.";

  std::string side_row_speaks() const;
  std::string from(const std::string& index) const;
  std::string create_index(const std::string& name, const std::string& column,
                           const std::string& where) const;
  std::string expanded(std::string text, const std::string& name) const;
  bool fits(const std::string& index, const std::string& where) const;

  Connection& connection_;
  Mapping mapping_;
  IndexNames names_;
};

}  // namespace outbox::sqlite
