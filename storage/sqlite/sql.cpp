#include "storage/sqlite/sql.h"

#include <fmt/format.h>

#include <utility>

#include "storage/sqlite/identifiers.h"
#include "storage/sqlite/side_rows.h"

namespace outbox::sqlite {

Sql::Sql(Connection& connection, Mapping mapping)
    : connection_(connection), mapping_(std::move(mapping)), names_(index_names(mapping_)) {
  if (!fits(names_.pending, is_pending())) names_.pending.clear();
  if (!fits(names_.failed, is_failed())) names_.failed.clear();
  if (!fits(names_.dead, is_dead())) names_.dead.clear();
  const std::string of_key = value(mapping_.columns.ordering_key) + " = 'x' AND ";
  if (!fits(names_.open_key, of_key + is_open())) names_.open_key.clear();
  if (!fits(names_.dead_key, of_key + is_dead())) names_.dead_key.clear();
}

// Whether there is such an index, and SQLite can use it for these rows.
bool Sql::fits(const std::string& index, const std::string& where) const {
  try {
    Query probe(connection_.database(), fmt::format("SELECT 1 FROM {} AS o INDEXED BY {} WHERE {}",
                                                    table(), quoted(index), where));
    return true;
  } catch (const SQLite::Exception&) {
    return false;
  }
}

std::string Sql::from(const std::string& index) const {
  const std::string source = table() + " AS o";
  return index.empty() ? source : source + " INDEXED BY " + quoted(index);
}

// False for a state that the table does not have.
std::string Sql::is(const std::string& state) const {
  if (!has_status() || state.empty()) return "0";
  return status() + " = " + state_literal(state);
}

std::string Sql::state_literal(const std::string& state) const {
  return mapping_.numeric_status ? state : literal(state);
}

std::string Sql::is_pending() const {
  return mapping_.holds_failed() ? is(mapping_.states.pending) : is_open();
}

std::string Sql::is_failed() const {
  return mapping_.holds_failed() ? is(mapping_.states.failed) : "0";
}

std::string Sql::is_processed() const {
  if (has_status()) return is(mapping_.states.processed);
  if (mapping_.columns.processed_on.empty()) return "0";
  return column(mapping_.columns.processed_on) + " IS NOT NULL";
}

std::string Sql::is_open() const {
  const States& s = mapping_.states;
  if (has_status()) {
    if (s.failed.empty()) return is(s.pending);
    return fmt::format("{} IN ({}, {})", status(), state_literal(s.pending),
                       state_literal(s.failed));
  }
  if (mapping_.columns.processed_on.empty()) return "1";
  return column(mapping_.columns.processed_on) + " IS NULL";
}

std::string Sql::state_name() const {
  std::string text = "CASE";
  for (const auto& [condition, name] :
       {std::pair(is_pending(), state::kPending), std::pair(is_failed(), state::kFailed),
        std::pair(is_processed(), state::kProcessed), std::pair(is_dead(), state::kDeadLettered)}) {
    if (condition != "0") text += fmt::format(" WHEN {} THEN '{}'", condition, name);
  }
  return text + " END";
}

std::string Sql::create_key_index() const {
  const Columns& c = mapping_.columns;
  std::string where;
  if (has_status()) {
    where = fmt::format(
        " WHERE {} IN ({}{})", quoted(c.status), state_literal(mapping_.states.pending),
        mapping_.states.failed.empty() ? "" : ", " + state_literal(mapping_.states.failed));
  } else if (!c.processed_on.empty()) {
    where = fmt::format(" WHERE {} IS NULL", quoted(c.processed_on));
  }
  return fmt::format("CREATE INDEX {} ON {} ({}){};", quoted(index_names(mapping_).open_key),
                     table(), quoted(c.ordering_key), where);
}

// Each of the two is one step into the table; together in one SELECT they would be a walk.
std::string Sql::span() const {
  return fmt::format("SELECT (SELECT max({0}) FROM {1} AS o) - (SELECT min({0}) FROM {1} AS o)",
                     order(), table());
}

std::string Sql::fingerprint() const {
  return fmt::format("{}({})", kFingerprintFunction, column(mapping_.columns.id));
}

// Puts the column into each {}.
std::string Sql::expanded(std::string text, const std::string& name) const {
  if (name.empty()) return "NULL";
  const std::string value = column(name);
  for (std::size_t at = text.find("{}"); at != std::string::npos; at = text.find("{}", at)) {
    text.replace(at, 2, value);
    at += value.size();
  }
  return text;
}

// A side row stands for a row only while that is undecided or dead: what else the application has
// made of it takes precedence. And only for the row that it was written for: under the same key
// there may be another one by now.
std::string Sql::side_row_speaks() const {
  return fmt::format("({} OR {}) AND coalesce(r.fingerprint, {}) IN ({}, {})", is_open(), is_dead(),
                     kAnyFingerprint, kAnyFingerprint, fingerprint());
}

std::string Sql::side_row() const {
  return fmt::format("LEFT JOIN outbox_relay_rows AS r ON r.outbox = ?1 AND r.row_key = {} AND {}",
                     key_beside(), side_row_speaks());
}

std::string Sql::beside() const {
  return fmt::format("LEFT JOIN outbox_relay_leases AS l ON l.outbox = ?1 AND l.row_key = {} {}",
                     key_beside(), side_row());
}

std::string Sql::from_side(const std::string& index) const {
  return fmt::format("outbox_relay_rows AS r{} JOIN {} AS o ON {} = r.row_key AND {}",
                     index.empty() ? "" : " INDEXED BY " + index, table(), row_key(),
                     side_row_speaks());
}

std::string Sql::whole_state() const {
  return fmt::format(
      "coalesce((SELECT r.state FROM outbox_relay_rows AS r "
      "WHERE r.outbox = ?1 AND r.row_key = {} AND {}), {}, '')",
      key_beside(), side_row_speaks(), state_name());
}

// The side tables' key has no declared type, since a mapped table's may be anything. Compared with
// a typed column it would be converted first, and its index not used: one row's look would walk the
// whole side table. The plus makes it a mere value.
std::string Sql::key_beside() const { return "+" + row_key(); }

}  // namespace outbox::sqlite
