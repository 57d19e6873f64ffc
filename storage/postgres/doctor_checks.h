// The parts of the doctor: each looks at one side of a database and adds what it finds.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "relay/backends.h"
#include "storage/postgres/sql.h"

namespace outbox::postgres {

using Findings = std::vector<Finding>;

// Durability, role of the server, version, pooler, what holds back the clean-up of dead rows.
// False if the server is a read replica, where nothing else matters.
bool check_server(Connection& connection, Findings& findings);

// Those that have been open for so long: no old row versions are cleaned up meanwhile.
void check_transactions(Connection& connection, std::chrono::minutes age, Findings& findings);

// Tables, columns, indexes. False if the outbox's rows can't be looked at.
bool check_schema(Connection& connection, const StoreSettings& settings, Findings& findings);

// What the session's role may not do. False if rows can't be looked at for it.
bool check_grants(Connection& connection, const Table& table, Findings& findings);

// Tables that do not outlive a crash.
void check_persistence(Connection& connection, const Table& table, Findings& findings);

// Triggers that fire when the relay settles a row, and policies that hide rows.
void check_triggers(Connection& connection, const Table& table, Findings& findings);
void check_row_security(Connection& connection, const Table& table, Findings& findings);

// What the outbox holds, and how the database would find rows to be leased.
void check_rows(Connection& connection, const Sql& sql, Findings& findings);
void check_plan(Connection& connection, const Sql& sql, Findings& findings);

// Old rows of a foreign table that nobody has said anything about.
void check_adoption(Connection& connection, const Sql& sql, Findings& findings);

// Relays that have left something behind, and what an operator has ordered.
void check_relays(Connection& connection, const Sql& sql, Findings& findings);

}  // namespace outbox::postgres
