// How the columns and states of an outbox table are called. All SQL is built from a Mapping, so
// that another table only needs another one.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "relay/backends.h"

namespace outbox {

// The database is not what it should be. The text says why, and what to do.
struct Unusable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The relay's tables were made by another version of the program.
struct OtherVersion : Unusable {
  using Unusable::Unusable;
};

// They are of a major version that this program does not know.
struct NewerTables : OtherVersion {
  using OtherVersion::OtherVersion;
};

// What of a mapping differs from one database to the next.
struct Dialect {
  std::string name;           // of the database, for people
  std::string system_prefix;  // of the tables that the database keeps for itself
  // CAP keeps headers and payload in one JSON object: SQL with the column's name for each {}.
  std::string cap_payload_sql;
  std::string cap_headers_sql;
};

// Names of columns. Empty: the table has no such column, and the relay keeps beside it what it
// needs to know.
struct Columns {
  std::string sequence;  // a number that rises with each insert, and is not the id
  std::string id;
  std::string event_type;
  std::string ordering_key;
  std::string destination;
  std::string content_type;
  std::string headers;
  std::string traceparent;
  std::string occurred_on;
  std::string not_before;
  std::string status;
  std::string retry_count;
  std::string next_attempt;
  std::string last_error;
  std::string processed_on;
  std::string dead_letter_reason;
  std::string payload;
};

// What stands in the status column. Empty: the table has no such state.
struct States {
  std::string pending;
  std::string failed;
  std::string processed;
  std::string dead_lettered;
};

// How times are written, and how numbers are read as times. Texts are read in every form that the
// database's own functions know.
enum class TimeFormat {
  iso,           // 2026-11-30T18:42:00.123Z
  sql,           // 2026-11-30 18:42:00.123
  seconds,       // since 1970
  milliseconds,  // since 1970
  ticks,         // of 100 ns, since the year 1 (.NET)
};

// How a GUID stands in 16 bytes.
enum class GuidOrder {
  dotnet,  // the first three fields little-endian, as .NET writes them
  plain,   // as the text reads (RFC 9562)
};

// The columns of a table, as it was found.
struct TableColumn {
  std::string name;
  std::string type;       // as declared
  bool rowid = false;     // SQLite: another name of the rowid
  bool computed = false;  // GENERATED ALWAYS: nobody can write it
  bool nullable = false;  // PostgreSQL: NULL may stand there
};

// One column of a preset, by the names that it may have.
struct ColumnChoice {
  std::string Columns::*column = nullptr;
  std::string key;                 // in store.columns
  std::vector<std::string> names;  // the first one that the table has is taken
  bool required = false;
};

struct Mapping {
  std::string table;
  std::string preset;
  bool foreign = false;  // see StoreSettings::foreign()
  std::vector<ColumnChoice> choices;
  Columns columns;
  States states;
  TimeFormat times = TimeFormat::iso;
  GuidOrder guids = GuidOrder::dotnet;
  bool numeric_status = false;  // states are numbers
  std::string order;            // the column that rises by insert; SQLite: a name of the rowid
  bool stateless = false;       // rows have no state of their own; else a table without is refused
  // How message parts are read if not from a column of their own: SQL with the column's name in
  // place of each {}.
  std::string payload_sql = "{}";
  std::string headers_sql = "{}";

  // The column by which a row is known, also to the relay's own tables.
  const std::string& row_key() const {
    return columns.sequence.empty() ? columns.id : columns.sequence;
  }
  // Whether a row's key is its place in the order of the table.
  bool key_is_order() const { return row_key() == order; }

  // Which verdicts the table's own columns can hold. What they can't is kept beside the row.
  bool holds_processed() const;
  bool holds_failed() const;
  bool holds_dead() const;
};

// The mapping that the settings ask for, with the first name of each choice: what it is in a given
// table, resolve() finds out. Throws SettingsError if there is no such preset, a name can't be one,
// or an override names no column or state.
Mapping mapping_of(const StoreSettings& settings, const Dialect& dialect);

// The mapping with the names that this table has, spelt as the table spells them; `order` is left
// as it was. Throws Unusable, naming what is missing.
Mapping resolve(Mapping mapping, const std::vector<TableColumn>& columns);

std::vector<std::string> preset_names();

// Ignores case, as lower() does.
const TableColumn* find_column(const std::vector<TableColumn>& columns, const std::string& name);

// ASCII letters in lower case: names that differ in them alone are taken for the same.
std::string lower(std::string_view name);

// `name` as an SQL identifier, `text` as an SQL string literal.
std::string quoted(const std::string& name);
std::string literal(const std::string& text);

// The partial indexes that the relay's queries name.
struct IndexNames {
  std::string pending;
  std::string failed;
  std::string dead;
  std::string open_key;
  std::string dead_key;
};

IndexNames index_names(const Mapping& mapping);

}  // namespace outbox
