#include "storage/postgres/grants.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "storage/postgres/desk.h"

namespace outbox::postgres {
namespace {

constexpr const char* kClean = "for retention and dead-letters discard";

void add(std::vector<Need>& needs, const std::string& table, const char* purpose,
         std::initializer_list<const char*> privileges) {
  for (const char* privilege : privileges) {
    needs.push_back({.object = table, .privilege = privilege, .purpose = purpose});
  }
}

std::string listed(const std::vector<std::string>& columns) {
  std::string list;
  for (const std::string& column : columns) {
    list += (list.empty() ? "" : ", ") + quoted(column);
  }
  return list;
}

// The table that is there, or the one that init would make.
Table table_for_grants(Connection& connection, const StoreSettings& settings) {
  const Found found = find_table(connection, table_name(settings.table));
  if (found.oid != 0 || settings.foreign()) return require_outbox(connection, settings);
  Table table;
  table.schema = found.schema;
  table.mapping = mapping_of(settings);
  table.mapping.table = found.table;
  return table;
}

std::string user_of(const StoreSettings& settings) {
  for (const auto& [name, value] : location_of(settings).options) {
    if (name == "user") return value;
  }
  return {};
}

bool has(Connection& connection, const Need& need) {
  switch (need.kind) {
    case Need::Kind::schema:
      return ask(connection, "SELECT 1 WHERE pg_catalog.has_schema_privilege($1::text, $2::text)",
                 need.object, need.privilege)
          .next();
    case Need::Kind::table:
      return ask(connection, "SELECT 1 WHERE pg_catalog.has_table_privilege($1::text, $2::text)",
                 need.object, need.privilege)
          .next();
    case Need::Kind::sequence:
      return ask(connection, "SELECT 1 WHERE pg_catalog.has_sequence_privilege($1::text, $2::text)",
                 need.object, need.privilege)
          .next();
    case Need::Kind::columns:
      return std::all_of(need.columns.begin(), need.columns.end(), [&](const std::string& column) {
        return ask(connection,
                   "SELECT 1 WHERE pg_catalog.has_column_privilege($1::text, $2::text, $3::text)",
                   need.object, column, need.privilege)
            .next();
      });
  }
  return false;
}

// All privileges of one kind on one object in one statement.
std::string grant_all(const std::vector<Need>& needs, const std::string& role) {
  std::string statements;
  for (std::size_t i = 0; i < needs.size();) {
    Need need = needs[i++];
    while (i < needs.size() && need.kind == Need::Kind::table && needs[i].kind == need.kind &&
           needs[i].object == need.object && needs[i].purpose == need.purpose) {
      need.privilege += ", " + needs[i++].privilege;
    }
    statements += need.grant(role) + (need.purpose.empty() ? "" : "  -- " + need.purpose) + "\n";
  }
  return statements;
}

}  // namespace

std::string Need::grant(const std::string& role) const {
  const std::string to = " TO " + quoted(role) + ";";
  switch (kind) {
    case Kind::schema:
      return fmt::format("GRANT {} ON SCHEMA {}{}", privilege, quoted(object), to);
    case Kind::table:
      return fmt::format("GRANT {} ON {}{}", privilege, object, to);
    case Kind::columns:
      return fmt::format("GRANT {} ({}) ON {}{}", privilege, listed(columns), object, to);
    case Kind::sequence:
      return fmt::format("GRANT {} ON SEQUENCE {}{}", privilege, object, to);
  }
  return {};
}

std::vector<std::string> written_columns(const Mapping& mapping) {
  const Columns& c = mapping.columns;
  std::vector<std::string> columns = {c.status,     c.retry_count,  c.next_attempt,
                                      c.last_error, c.processed_on, c.dead_letter_reason};
  std::erase(columns, "");
  return columns;
}

std::vector<Need> needs_of(const Table& table) {
  const bool foreign = table.mapping.foreign;
  const std::string outbox = table.qualified();
  std::vector<Need> needs;
  needs.push_back({.kind = Need::Kind::schema, .object = table.schema, .privilege = "USAGE"});
  add(needs, outbox, "", {"SELECT"});
  // To lock a row takes the right to write some column of it.
  const auto written = written_columns(table.mapping);
  const bool writes = !written.empty();
  needs.push_back({.kind = Need::Kind::columns,
                   .object = outbox,
                   .privilege = "UPDATE",
                   .columns = writes ? written : std::vector{table.mapping.row_key()},
                   .purpose = writes ? "" : "to lock rows: nothing is written there"});
  add(needs, outbox, kClean, {"DELETE"});
  needs.back().optional = foreign;
  add(needs, table.beside("outbox_relay_meta"), "", {"SELECT"});
  if (foreign) {
    add(needs, table.beside("outbox_relay_meta"), "to begin on the table", {"INSERT", "UPDATE"});
  }
  add(needs, table.beside("outbox_relay_incarnations"), "",
      {"SELECT", "INSERT", "UPDATE", "DELETE"});
  add(needs, table.beside("outbox_relay_leases"), "", {"SELECT", "INSERT", "DELETE"});
  add(needs, table.beside("outbox_relay_rows"), "", {"SELECT", "INSERT", "UPDATE", "DELETE"});
  add(needs, table.beside("outbox_relay_brokers"), "", {"SELECT", "INSERT", "UPDATE"});
  add(needs, table.beside("outbox_relay_attempts"), "", {"SELECT", "INSERT", "DELETE"});
  add(needs, table.beside("outbox_relay_audit"), "", {"SELECT", "INSERT", "DELETE"});
  needs.push_back({.kind = Need::Kind::sequence,
                   .object = table.beside("outbox_relay_epochs"),
                   .privilege = "USAGE"});
  return needs;
}

std::vector<Need> missing_needs(Connection& connection, const Table& table) {
  std::vector<Need> missing;
  for (Need& need : needs_of(table)) {
    try {
      if (!has(connection, need)) missing.push_back(std::move(need));
    } catch (const SchemaChanged&) {
      // That the object itself is missing is another finding.
    }
  }
  return missing;
}

Answer<std::string> grants(const StoreSettings& settings, const std::string& role) {
  return answered<std::string>([&](std::string& statements) {
    const std::string grantee = role.empty() ? user_of(settings) : role;
    if (grantee.empty()) {
      throw Unusable(
          "name the role: outbox-relay init --grants ROLE, since store.url names no user");
    }
    Connection connection(connection_settings(settings, "init"));
    statements = grant_all(needs_of(table_for_grants(connection, settings)), grantee);
  });
}

}  // namespace outbox::postgres
