// How the columns and states of an outbox table are called. All SQL is built from a Mapping, so
// that another table only needs another one.
#pragma once

#include <string>
#include <vector>

#include "relay/backends.h"

namespace outbox::sqlite {

struct Columns {
  std::string id = "id";
  std::string event_type = "event_type";
  std::string ordering_key = "ordering_key";
  std::string destination = "destination";
  std::string content_type = "content_type";
  std::string headers = "headers";
  std::string traceparent = "traceparent";
  std::string occurred_on = "occurred_on_utc";
  std::string not_before = "not_before_utc";
  std::string status = "status";
  std::string retry_count = "retry_count";
  std::string next_attempt = "next_attempt_on_utc";
  std::string last_error = "last_error";
  std::string processed_on = "processed_on_utc";
  std::string dead_letter_reason = "dead_letter_reason";
  std::string payload = "payload";
};

struct States {
  std::string pending = "Pending";
  std::string failed = "Failed";
  std::string processed = "Processed";
  std::string dead_lettered = "DeadLettered";
};

struct Mapping {
  std::string table;
  std::string row_key = "sequence";  // the rowid, or an alias of it
  std::string order = "sequence";    // an integer that rises with each insert
  Columns columns;
  States states;

  // Every column that the table must have.
  std::vector<std::string> column_names() const;
};

// The mapping that the settings ask for. Throws SettingsError if there is no such preset, or the
// table's name can't be one.
Mapping mapping_of(const StoreSettings& settings);

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

}  // namespace outbox::sqlite
