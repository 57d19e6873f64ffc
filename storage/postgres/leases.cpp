#include "storage/postgres/leases.h"

#include <fmt/format.h>

#include <set>

namespace outbox::postgres {
namespace {

// The lease's primary key decides who has a row; that other relays' rows are skipped only spares
// waiting for them.
std::string lease_sql(const Sql& sql) {
  return fmt::format(
      "INSERT INTO {} (outbox, row_key, incarnation, epoch, alone, noted) "
      "SELECT $1, x.key, $3, $4, x.alone <> 0, x.noted <> 0 "
      "FROM unnest($2, $5, $6) AS x(key, alone, noted) CROSS JOIN LATERAL "
      "(SELECT 1 FROM {} WHERE {} = {} AND {} FOR NO KEY UPDATE OF o SKIP LOCKED) AS mine "
      "ON CONFLICT DO NOTHING RETURNING row_key",
      sql.leases(), sql.from(), sql.row_key(), sql.as_key("x.key"), sql.is_open());
}

}  // namespace

Leases::Leases(Connection& connection, const Sql& sql)
    : outbox_(sql.outbox()),
      lease_(connection, lease_sql(sql)),
      forget_(connection,
              fmt::format("DELETE FROM {} WHERE outbox = $1 AND row_key = ANY($2)", sql.leases())) {
}

std::vector<Picked> Leases::lease(const std::vector<Picked>& rows, std::int64_t incarnation,
                                  LeaseId epoch) {
  if (rows.empty()) return {};
  std::vector<std::string> keys;
  std::vector<std::int64_t> alone;
  std::vector<std::int64_t> noted;
  for (const Picked& row : rows) {
    keys.push_back(row.key);
    alone.push_back(row.alone ? 1 : 0);
    noted.push_back(row.noted ? 1 : 0);
  }
  std::set<std::string> leased;
  Rows found = lease_.rows(outbox_, keys, incarnation, epoch, alone, noted);
  while (found.next()) leased.insert(found.text(0));
  std::vector<Picked> result;
  std::vector<std::string> behind;
  std::set<std::string> broken;
  for (const Picked& row : rows) {
    const bool ours = leased.contains(row.key);
    if (row.ordering_key && (!ours || broken.contains(*row.ordering_key))) {
      broken.insert(*row.ordering_key);
      if (ours) behind.push_back(row.key);
    } else if (ours) {
      result.push_back(row);
    }
  }
  forget(behind);
  return result;
}

void Leases::forget(const std::vector<std::string>& keys) {
  if (!keys.empty()) forget_.run(outbox_, keys);
}

}  // namespace outbox::postgres
