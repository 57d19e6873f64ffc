// The pieces of SQL that depend on a table.
#pragma once

#include <string>

#include "storage/postgres/table.h"

namespace outbox::postgres {

// States stand in the SQL as literals: with a bound value a partial index would not be used. "o"
// stands for the outbox, "l" for its lease, "r" for its side row; $1 is always the outbox's name in
// the relay's tables.
class Sql {
 public:
  explicit Sql(Table table) : table_(std::move(table)) {}

  const Table& table() const { return table_; }
  const Mapping& mapping() const { return table_.mapping; }
  const std::string& outbox() const { return table_.mapping.table; }

  // "schema"."table" AS o
  std::string from() const { return table_.qualified() + " AS o"; }
  std::string column(const std::string& name) const { return "o." + quoted(name); }
  // The same, or NULL if the table has no such column.
  std::string value(const std::string& name) const { return name.empty() ? "NULL" : column(name); }
  // A column as text, or NULL. A bytea stays what it is: its bytes are looked at by the reader.
  std::string text(const std::string& name) const;
  // A column as timestamptz; NULL if there is none, or it holds what is read as a text.
  std::string time(const std::string& name) const;
  // A time as it is written into that column; `value` is a timestamptz.
  std::string as_column_time(const std::string& name, const std::string& value) const;

  std::string payload() const;
  std::string payload_size() const;

  // The key, and the key as the relay's tables have it.
  std::string row_key() const { return column(mapping().row_key()); }
  std::string key_text() const;
  // " AND ...", where there may be rows without a key: those are left alone.
  std::string with_key() const;
  // A text, or an array of texts, as values of the key's type.
  std::string as_key(const std::string& text) const;
  std::string as_keys(const std::string& texts) const;

  // The place in the order of the table: a number, a text where numbers may be equal, and the
  // condition to be there or behind. See Place.
  std::string place() const;
  std::string tie() const;
  std::string order() const;
  std::string order_descending() const;
  std::string from_place(const std::string& number, const std::string& tie) const;
  // from(), with only such rows: by an index also where rows without a time stand behind the
  // others.
  std::string rows_from(const std::string& number, const std::string& tie) const;
  // Whether those are all the rows that are at_or_after() a place.
  bool is_one_range() const { return !has_timeless(); }
  std::string at_or_after(const std::string& number, const std::string& tie) const;

  // Of the event's id, as a row's handle has it.
  std::string fingerprint() const;

  // As far as the table's own columns tell. `alias` stands before a column's name.
  std::string is_pending(const std::string& alias = "o.") const;
  std::string is_failed(const std::string& alias = "o.") const;
  std::string is_processed(const std::string& alias = "o.") const;
  std::string is_dead(const std::string& alias = "o.") const;
  std::string is_open(const std::string& alias = "o.") const;
  // The relay's own name of the outbox's state; NULL for one that is not ours.
  std::string state_name() const;
  // The state by the side row, if that speaks, else by the row itself.
  std::string whole_state() const;
  std::string state_literal(const std::string& state) const;

  // When a failed row is due, where the table's own columns can hold it.
  std::string due() const;

  // LEFT JOINs with the row's side row, and with its lease, too.
  std::string side_row() const;
  std::string beside() const;
  // From side rows to the outbox.
  std::string from_side() const;
  // A side row stands for its row only while that is undecided or dead, and only for the event that
  // it was written for.
  std::string side_row_speaks() const;

  std::string meta() const { return table_.beside("outbox_relay_meta"); }
  std::string incarnations() const { return table_.beside("outbox_relay_incarnations"); }
  std::string leases() const { return table_.beside("outbox_relay_leases"); }
  std::string rows() const { return table_.beside("outbox_relay_rows"); }
  std::string brokers() const { return table_.beside("outbox_relay_brokers"); }
  std::string attempts() const { return table_.beside("outbox_relay_attempts"); }
  std::string audit() const { return table_.beside("outbox_relay_audit"); }
  std::string epochs() const { return table_.beside("outbox_relay_epochs"); }

 private:
  std::string is(const std::string& alias, const std::string& state) const;
  bool has_timeless() const;
  bool orders_by_number() const;
  bool orders_by_time() const;

  Table table_;
};

}  // namespace outbox::postgres
