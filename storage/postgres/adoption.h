// Beginning on somebody else's table, whose old rows may be there by mistake: years of them must
// not flood consumers.
#pragma once

#include <string>

#include "relay/backends.h"
#include "storage/mapping/adoption_note.h"
#include "storage/postgres/sql.h"

namespace outbox::postgres {

// Whether the relay has begun on the table.
Adopted adopted(Connection& connection, const Sql& sql);

// Throws Unusable, saying what to do, while a foreign table holds rows to be sent that are older
// than an hour by `now`, SQL for the present time (or whose age is not known), and nobody has said
// what is to become of them. A table without is taken on as it stands; its first relay writes that
// down. Outside of a transaction.
void require_adoption(Connection& connection, const Sql& sql, const std::string& now);

// Throws Unusable unless the relay has begun on the table under this very mapping: under another
// one, what is written about a row may be taken for what is written about nobody, and be removed.
void require_adopted(Connection& connection, const Sql& sql);

// Throws Unusable if the relay has begun on the table under another mapping.
void require_no_other(Connection& connection, const Sql& sql);

// What adopt() would count as skipped if it began with rows an hour old: by a look.
AdoptionCount count_old_rows(Connection& connection, const Sql& sql, const std::string& now);

// Takes the table on. Rows from before `order.since` are marked beside the table as skipped: they
// are left alone until a later order takes them in. In short transactions. A dry run only counts.
AdoptionCount adopt(Connection& connection, const Sql& sql, const AdoptionOrder& order,
                    const std::string& now);

}  // namespace outbox::postgres
