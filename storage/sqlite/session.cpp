#include "storage/sqlite/session.h"

#include <utility>

#include "storage/sqlite/adoption.h"
#include "storage/sqlite/schema.h"

namespace outbox::sqlite {
namespace {

Mapping prepare(Connection& connection, const Mapping& wanted, bool may_create) {
  Mapping mapping = require_outbox(connection, wanted);
  require_relay_tables(connection, may_create);
  return mapping;
}

}  // namespace

Session::Session(const std::string& path, const Mapping& wanted, bool may_create,
                 const std::string& own_broker, const Clocks& clocks)
    : connection(path, std::chrono::milliseconds{0}),
      schema_version(0),
      sql(connection, prepare(connection, wanted, may_create)),
      outbox(sql.mapping().table),
      side_rows(connection, outbox, clocks),
      settler(connection, sql, outbox, side_rows),
      selector(connection, sql, outbox),
      reader(connection, sql, outbox, side_rows, clocks),
      registration(connection, sql, outbox, clocks),
      peers(connection, sql, outbox, clocks),
      circuits(connection, outbox, own_broker, clocks),
      operators_orders(connection.database(),
                       "SELECT max(isolated <> 0), max(paused <> 0), "
                       "max(CASE WHEN isolated <> 0 THEN reason END), "
                       "max(broker = ?2 AND state = 'open') FROM outbox_relay_brokers "
                       "WHERE outbox = ?1"),
      broker(own_broker) {
  // Checked once more under this version: what was changed meanwhile would go unnoticed else.
  schema_version = connection.schema_version();
  require_outbox(connection, wanted);
  require_adoption(connection, sql, clocks);
}

void Session::require_same_schema() {
  if (connection.schema_version() != schema_version) throw SchemaChanged{};
}

Orders Session::orders() {
  auto rows = operators_orders.rows(outbox, broker);
  if (!rows.next()) return {};
  return {rows.integer(0) != 0, rows.integer(1) != 0, rows.maybe_text(2).value_or(""),
          rows.integer(3) != 0};
}

}  // namespace outbox::sqlite
