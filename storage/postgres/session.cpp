#include "storage/postgres/session.h"

#include <algorithm>
#include <utility>

#include "storage/postgres/adoption.h"
#include "storage/postgres/schema.h"

namespace outbox::postgres {
namespace {

// Far less than the second after which a server looks for deadlocks: a relay never makes another's
// transaction fail.
constexpr Duration kLockWaitMax = std::chrono::milliseconds{50};

ConnectionSettings of_relay(const StoreSettings& settings) {
  ConnectionSettings result = connection_settings(settings, "relay");
  result.lock_wait = std::min(result.lock_wait, kLockWaitMax);
  return result;
}

Table prepare(Connection& connection, const StoreSettings& settings) {
  Transaction transaction(connection, Transaction::Kind::read);
  Table table = require_outbox(connection, settings);
  require_relay_tables(connection, table.schema);
  transaction.commit();
  return table;
}

}  // namespace

Session::Session(const StoreSettings& settings, const std::string& now)
    : connection(of_relay(settings)),
      sql(prepare(connection, settings)),
      side_rows(connection, sql),
      settler(connection, sql, side_rows),
      selector(connection, sql),
      leases(connection, sql),
      reader(connection, sql, side_rows),
      registration(connection, sql, now, settings.broker),
      insert_trigger(connection, sql),
      circuits(connection, sql, settings.broker) {
  settler.keep_attempts(settings.attempts_kept);
  circuits.share(sql.table().schema);
  require_adoption(connection, sql, now);
  connection.listen("outbox_relay");
}

}  // namespace outbox::postgres
