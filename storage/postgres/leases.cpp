#include "storage/postgres/leases.h"

#include <fmt/format.h>

#include <set>
#include <unordered_set>

namespace outbox::postgres {
namespace {

// The lease's primary key decides who has a row; that other relays' rows are skipped only spares
// waiting for them. A row that was loaded before must still be as it was. The epoch is drawn when
// all rows are locked: it is higher than that of any lease that they had before (promise P6).
std::string lease_sql(const Sql& sql) {
  return fmt::format(
      "WITH mine AS MATERIALIZED (SELECT x.key, x.alone, x.noted "
      "FROM unnest($2, $4, $5, $6) AS x(key, alone, noted, version) CROSS JOIN LATERAL "
      "(SELECT 1 FROM {0} WHERE {1} = {2} AND {3} AND (x.version IS NULL OR o.xmin = x.version) "
      "FOR NO KEY UPDATE OF o SKIP LOCKED) AS free), "
      "drawn AS MATERIALIZED (SELECT pg_catalog.nextval('{4}') AS epoch "
      "FROM (SELECT count(*) FROM mine) AS all_locked) "
      "INSERT INTO {5} (outbox, row_key, incarnation, epoch, alone, noted) "
      "SELECT $1, mine.key, $3, drawn.epoch, mine.alone <> 0, mine.noted <> 0 "
      "FROM mine CROSS JOIN drawn ON CONFLICT DO NOTHING RETURNING row_key, epoch",
      sql.from(), sql.row_key(), sql.as_key("x.key"), sql.is_open(), sql.epochs(), sql.leases());
}

}  // namespace

Leases::Leases(Connection& connection, const Sql& sql)
    : outbox_(sql.outbox()),
      lease_(connection, lease_sql(sql)),
      end_(connection, fmt::format("DELETE FROM {} WHERE outbox = $1 AND row_key = ANY($2) "
                                   "AND incarnation = $3 AND epoch = $4",
                                   sql.leases())) {}

Ahead Leases::lease(const std::vector<Picked>& rows, bool as_loaded, std::int64_t incarnation) {
  std::vector<std::string> keys;
  std::vector<std::int64_t> alone;
  std::vector<std::int64_t> noted;
  std::vector<std::optional<TransactionId>> versions;
  for (const Picked& row : rows) {
    keys.push_back(row.key);
    alone.push_back(row.alone ? 1 : 0);
    noted.push_back(row.noted ? 1 : 0);
    versions.push_back(as_loaded ? row.version : std::nullopt);
  }
  return lease_.send(outbox_, keys, incarnation, alone, noted, versions);
}

Leased Leases::leased(const std::vector<Picked>& rows, Rows found) {
  Leased result;
  std::unordered_set<std::string> leased;
  while (found.next()) {
    leased.insert(found.text(0));
    result.epoch = static_cast<LeaseId>(found.integer(1));
  }
  std::set<std::string> broken;
  for (const Picked& row : rows) {
    const bool ours = leased.contains(row.key);
    if (row.ordering_key && (!ours || broken.contains(*row.ordering_key))) {
      broken.insert(*row.ordering_key);
      if (ours) result.left.push_back(row.key);
    } else if (ours) {
      result.rows.push_back(row);
    }
  }
  return result;
}

std::vector<std::string> Leases::gone(const std::vector<Message>& loaded,
                                      const std::vector<Picked>& leased) {
  std::vector<std::string> gone;
  if (loaded.size() == leased.size()) return gone;
  std::set<std::string> keys;
  for (const Message& message : loaded) {
    keys.insert(std::get<std::string>(parse_row_id(message.row)->key));
  }
  for (const Picked& row : leased) {
    if (!keys.contains(row.key)) gone.push_back(row.key);
  }
  return gone;
}

void Leases::end(const std::vector<std::string>& keys, std::int64_t incarnation, LeaseId epoch) {
  if (!keys.empty()) end_.run(outbox_, keys, incarnation, epoch);
}

}  // namespace outbox::postgres
