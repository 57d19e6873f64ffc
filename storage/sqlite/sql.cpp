#include "storage/sqlite/sql.h"

#include <fmt/format.h>

#include <utility>

#include "storage/sqlite/identifiers.h"
#include "storage/sqlite/side_rows.h"

namespace outbox::sqlite {
namespace {

constexpr const char* kNoAlias = "";

}  // namespace

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
  } catch (const SQLite::Exception& error) {
    if (error.getErrorCode() != SQLITE_ERROR) throw;  // not about the statement
    return false;
  }
}

std::string Sql::from(const std::string& index) const {
  const std::string source = table() + " AS o";
  return index.empty() ? source : source + " INDEXED BY " + quoted(index);
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
  return create_index(index_names(mapping_).open_key, mapping_.columns.ordering_key,
                      sqlite::is_open(mapping_, kNoAlias));
}

std::string Sql::create_pending_index() const {
  const Columns& c = mapping_.columns;
  return create_index(index_names(mapping_).pending, c.status.empty() ? c.processed_on : c.status,
                      sqlite::is_pending(mapping_, kNoAlias));
}

// Under the name by which the relay's queries look for it. Each index ends with the rowid, so that
// equal values stand in the order of the table.
std::string Sql::create_index(const std::string& name, const std::string& column,
                              const std::string& where) const {
  return fmt::format("CREATE INDEX {} ON {} ({}){};", quoted(name), table(), quoted(column),
                     where == "1" ? "" : " WHERE " + where);
}

std::string Sql::count(std::int64_t most) const {
  return fmt::format("SELECT count(*) FROM (SELECT 1 FROM {} LIMIT {})", table(), most);
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

std::string Sql::select_dead(const std::string& columns, const std::string& filter) const {
  return fmt::format(
      "SELECT {0} FROM {1} {2} WHERE {3} AND (r.state IS NULL OR r.state = '{4}') AND {5} "
      "UNION ALL SELECT {0} FROM {6} "
      "WHERE r.outbox = ?1 AND r.state IS NOT NULL AND r.state = '{4}' AND NOT ({3}) AND {5}",
      columns, from(names_.dead), side_row(), is_dead(), state::kDeadLettered, filter,
      from_side(""));
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
