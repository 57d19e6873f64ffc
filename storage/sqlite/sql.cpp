#include "storage/sqlite/sql.h"

#include <fmt/format.h>

#include <utility>

#include "storage/sqlite/side_rows.h"

namespace outbox::sqlite {

Sql::Sql(Connection& connection, Mapping mapping)
    : connection_(connection), mapping_(std::move(mapping)), names_(index_names(mapping_)) {
  if (!fits(names_.pending, is_pending())) names_.pending.clear();
  if (!fits(names_.failed, is_failed())) names_.failed.clear();
  if (!fits(names_.dead, is_dead())) names_.dead.clear();
  const std::string of_key = column(mapping_.columns.ordering_key) + " = 'x' AND ";
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

std::string Sql::is_open() const {
  return fmt::format("{} IN ({}, {})", status(), literal(mapping_.states.pending),
                     literal(mapping_.states.failed));
}

std::string Sql::state_name() const {
  const States& s = mapping_.states;
  return fmt::format(
      "CASE {} WHEN {} THEN '{}' WHEN {} THEN '{}' WHEN {} THEN '{}' WHEN {} THEN '{}' END",
      status(), literal(s.pending), state::kPending, literal(s.failed), state::kFailed,
      literal(s.processed), state::kProcessed, literal(s.dead_lettered), state::kDeadLettered);
}

std::string Sql::beside() const {
  return fmt::format(
      "LEFT JOIN outbox_relay_leases AS l ON l.outbox = ?1 AND l.row_key = {0} "
      "LEFT JOIN outbox_relay_rows AS r ON r.outbox = ?1 AND r.row_key = {0}",
      key_beside());
}

// The side tables' key has no declared type, since a mapped table's may be anything. Compared with
// a typed column it would be converted first, and its index not used: one row's look would walk the
// whole side table. The plus makes it a mere value.
std::string Sql::key_beside() const { return "+" + row_key(); }

}  // namespace outbox::sqlite
