#include "storage/postgres/desk_orders.h"

#include <fmt/format.h>

#include "storage/mapping/attempt_text.h"

namespace outbox::postgres {
namespace {

// One outbox has one broker as far as its relays know: the row without a name stands for it.
bool order(Desk& desk, const std::string& column, bool wanted, const Desk::Deed& deed) {
  Connection& connection = desk.connection;
  const std::string brokers = desk.sql.brokers();
  Transaction transaction(connection, Transaction::Kind::write);
  // Two operators at once: the second sees what the first has done.
  ask(connection,
      fmt::format("INSERT INTO {} (outbox, broker) VALUES ($1, '') ON CONFLICT DO NOTHING",
                  brokers),
      desk.outbox);
  bool before = false;
  {
    Rows rows = ask(connection,
                    fmt::format("SELECT {} FROM {} WHERE outbox = $1 ORDER BY broker FOR UPDATE",
                                column, brokers),
                    desk.outbox);
    while (rows.next()) before = before || rows.boolean(0);
  }
  if (before == wanted) return false;  // nothing was done that the audit should tell of
  ask(connection,
      fmt::format("UPDATE {0} SET {1} = false WHERE outbox = $1 AND {1}", brokers, column),
      desk.outbox);
  if (deed.action == "close") {  // what the relays said of it before
    ask(connection,
        fmt::format("UPDATE {} SET state = NULL WHERE outbox = $1 AND state = 'open'", brokers),
        desk.outbox);
  }
  ask(connection,
      fmt::format("UPDATE {} SET {} = $2, reason = $3, updated = {} "
                  "WHERE outbox = $1 AND broker = ''",
                  brokers, column, desk.now),
      desk.outbox, wanted, shortened(deed.reason));
  desk.audit(deed);
  transaction.commit();
  return true;
}

}  // namespace

bool order_isolation(Desk& desk, bool isolated, const std::string& reason) {
  return order(desk, "isolated", isolated,
               {.action = isolated ? "isolate" : "close", .reason = reason});
}

bool order_pause(Desk& desk, bool paused, const std::string& reason) {
  return order(desk, "paused", paused, {.action = paused ? "pause" : "resume", .reason = reason});
}

}  // namespace outbox::postgres
