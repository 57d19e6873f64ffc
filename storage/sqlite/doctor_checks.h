// The parts of the doctor: each looks at one side of a database and adds what it finds.
#pragma once

#include <string>
#include <vector>

#include "relay/backends.h"
#include "storage/mapping/mapping.h"
#include "storage/sqlite/connection.h"
#include "storage/sqlite/schema_gaps.h"
#include "storage/sqlite/times.h"

namespace outbox::sqlite {

// A command of this program is named in a fix without the flags that name the store: those are
// added by the program, which knows how they were given to it.
using Findings = std::vector<Finding>;

// The file, its folder and file system, free space. False if it is no use to open the database.
bool check_place(const StoreSettings& settings, Findings& findings);

// The write-ahead log and its locks. Before the database is opened: see read_wal_index().
void check_log(const StoreSettings& settings, Findings& findings);

// Journal, encoding, tables, columns, indexes. False if the outbox's rows can't be looked at.
bool check_schema(Connection& connection, const StoreSettings& settings, const Mapping& mapping,
                  Findings& findings);

// Triggers that fire when the relay writes to the outbox.
void check_triggers(Connection& connection, const Mapping& mapping, Findings& findings);

// What the outbox holds. The mapping's table is named as the database spells it.
void check_rows(Connection& connection, const Mapping& mapping, const Clocks& clocks,
                Findings& findings);

// Old rows of a foreign table that nobody has said anything about.
void check_adoption(Connection& connection, const Mapping& mapping, const Clocks& clocks,
                    Findings& findings);

// How the database would run the statements that lease rows.
void check_plan(Connection& connection, const Mapping& mapping, Findings& findings);

// Relays that have left something behind, and what an operator has ordered.
void check_relays(Connection& connection, const std::string& outbox, const Clocks& clocks,
                  Findings& findings);

}  // namespace outbox::sqlite
