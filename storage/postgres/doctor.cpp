#include "storage/postgres/doctor.h"

#include <utility>

#include "storage/postgres/doctor_checks.h"
#include "storage/postgres/schema.h"

namespace outbox::postgres {
namespace {

void add_unreadable(const std::string& what, Findings& findings) {
  findings.push_back({.severity = Severity::error,
                      .code = "database_unreadable",
                      .what = what,
                      .why = "The relay can't open it either.",
                      .fix = "Do what the message says; the relay goes on by itself.",
                      .unreachable = true});
}

void check_contents(Connection& connection, const StoreSettings& settings, Findings& findings) {
  if (!check_server(connection, findings)) return;
  if (!check_schema(connection, settings, findings)) return;
  const Sql sql(require_outbox(connection, settings));
  check_persistence(connection, sql.table(), findings);
  check_triggers(connection, sql.table(), findings);
  check_row_security(connection, sql.table(), findings);
  if (!check_grants(connection, sql.table(), findings)) return;
  check_rows(connection, sql, findings);
  check_plan(connection, sql, findings);
  check_adoption(connection, sql, findings);
  check_relays(connection, sql, findings);
}

}  // namespace

std::vector<Finding> inspect(const StoreSettings& settings) {
  Findings findings;
  try {
    ConnectionSettings wanted = connection_settings(settings, "doctor");
    wanted.must_write = false;
    Connection connection(wanted);
    check_contents(connection, settings, findings);
  } catch (const std::exception& error) {
    add_unreadable(error.what(), findings);
  }
  return findings;
}

}  // namespace outbox::postgres
