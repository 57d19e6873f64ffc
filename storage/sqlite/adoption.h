// Beginning on somebody else's table, whose old rows may be there by mistake: years of them must
// not flood consumers.
#pragma once

#include <string>

#include "relay/backends.h"
#include "storage/mapping/adoption_note.h"
#include "storage/sqlite/connection.h"
#include "storage/sqlite/sql.h"
#include "storage/sqlite/times.h"

namespace outbox::sqlite {

// Whether the relay has begun on the table.
Adopted adopted(Connection& connection, const Mapping& mapping);

// Throws Unusable, saying what to do, while a foreign table holds rows to be sent that are older
// than an hour (or whose age is not known) and nobody has said what is to become of them. A table
// without is taken on as it stands; its first relay writes that down. Throws Busy.
void require_adoption(Connection& connection, const Sql& sql, const Clocks& clocks);

// Throws Unusable unless the relay has begun on the table under this very mapping: under another
// one, what is written about a row may be taken for what is written about nobody, and be removed.
void require_adopted(Connection& connection, const Mapping& mapping);

// Throws Unusable if the relay has begun on the table under another mapping.
void require_no_other(Connection& connection, const Mapping& mapping);

// Takes the table on. Rows from before `order.since` are marked beside the table as skipped: they
// are left alone until a later order takes them in. In short transactions, with pauses. A dry run
// only counts.
AdoptionCount adopt(Connection& connection, const Sql& sql, const AdoptionOrder& order,
                    const Clocks& clocks);

}  // namespace outbox::sqlite
