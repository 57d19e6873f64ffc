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

Ahead Leases::lease(const std::vector<Picked>& rows, std::int64_t incarnation, LeaseId epoch) {
  std::vector<std::string> keys;
  std::vector<std::int64_t> alone;
  std::vector<std::int64_t> noted;
  for (const Picked& row : rows) {
    keys.push_back(row.key);
    alone.push_back(row.alone ? 1 : 0);
    noted.push_back(row.noted ? 1 : 0);
  }
  return lease_.send(outbox_, keys, incarnation, epoch, alone, noted);
}

std::vector<Picked> Leases::leased(const std::vector<Picked>& rows, Rows found) {
  std::set<std::string> leased;
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

void Leases::forget_all_but(const std::vector<Message>& loaded, const std::vector<Picked>& leased) {
  if (loaded.size() == leased.size()) return;
  std::set<std::string> keys;
  for (const Message& message : loaded) {
    keys.insert(std::get<std::string>(parse_row_id(message.row)->key));
  }
  std::vector<std::string> gone;
  for (const Picked& row : leased) {
    if (!keys.contains(row.key)) gone.push_back(row.key);
  }
  forget(gone);
}

void Leases::forget(const std::vector<std::string>& keys) {
  if (!keys.empty()) forget_.run(outbox_, keys);
}

}  // namespace outbox::postgres
