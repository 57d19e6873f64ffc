#include "storage/sqlite/desk_orders.h"

#include <fmt/format.h>

#include "storage/sqlite/settler.h"

namespace outbox::sqlite {
namespace {

// One outbox has one broker as far as its relays know: the row without a name stands for it.
bool order(Desk& desk, const std::string& column, bool wanted, const Desk::Deed& deed) {
  SQLite::Database& database = desk.connection.database();
  Query stands(database, fmt::format("SELECT coalesce(max({0} <> 0), 0) FROM outbox_relay_brokers "
                                     "WHERE outbox = ?1",
                                     column));
  Query let_go(database, fmt::format("UPDATE outbox_relay_brokers SET {0} = 0 "
                                     "WHERE outbox = ?1 AND {0} <> 0",
                                     column));
  Query write(database,
              fmt::format("INSERT INTO outbox_relay_brokers (outbox, broker, {0}, reason, updated) "
                          "VALUES (?1, '', ?2, ?3, ?4) ON CONFLICT (outbox, broker) "
                          "DO UPDATE SET {0} = ?2, reason = ?3, updated = ?4",
                          column));
  Transaction transaction(desk.connection, Transaction::Kind::write);
  bool before = false;
  {
    auto rows = stands.rows(desk.outbox);
    before = rows.next() && rows.integer(0) != 0;
  }
  if (before == wanted) return false;  // nothing was done that the audit should tell of
  let_go.run(desk.outbox);
  if (deed.action == "close") {
    Query(database,
          "UPDATE outbox_relay_brokers SET state = NULL WHERE outbox = ?1 AND state = "
          "'open'")
        .run(desk.outbox);  // what the relays said of it before
  }
  write.run(desk.outbox, wanted ? 1 : 0, shortened(deed.reason), to_text(desk.clocks.wall()));
  desk.audit(deed);
  transaction.commit();
  return true;
}

}  // namespace

bool order_isolation(Desk& desk, bool isolated, const std::string& reason) {
  return order(desk, "isolated", isolated, {isolated ? "isolate" : "close", reason, {}, {}});
}

bool order_pause(Desk& desk, bool paused, const std::string& reason) {
  return order(desk, "paused", paused, {paused ? "pause" : "resume", reason, {}, {}});
}

}  // namespace outbox::sqlite
