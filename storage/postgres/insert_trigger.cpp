#include "storage/postgres/insert_trigger.h"

namespace outbox::postgres {
namespace {

constexpr Duration kAskAgain = std::chrono::minutes{1};
// 4: it is fired by INSERT.
constexpr const char* kFind =
    "SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_trigger AS t JOIN pg_catalog.pg_proc AS p "
    "ON p.oid = t.tgfoid WHERE t.tgrelid = $1::oid AND t.tgenabled IN ('O', 'A') "
    "AND t.tgtype & 4 <> 0 AND p.prosrc LIKE '%outbox\\_relay%')";

}  // namespace

InsertTrigger::InsertTrigger(Connection& connection, const Sql& sql)
    : table_(sql.table().oid), find_(connection, kFind) {}

bool InsertTrigger::is_there(Time now) {
  if (missing_since_ && now - *missing_since_ < kAskAgain) return false;
  Rows rows = find_.rows(table_);
  const bool found = rows.next() && rows.boolean(0);
  missing_since_ = found ? std::nullopt : std::optional(now);
  return found;
}

}  // namespace outbox::postgres
