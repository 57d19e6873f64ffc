#include "storage/sqlite/session.h"

#include <utility>

#include "storage/sqlite/schema.h"

namespace outbox::sqlite {
namespace {

std::string prepare(Connection& connection, const Mapping& mapping, bool may_create) {
  std::string outbox = require_outbox(connection, mapping);
  require_relay_tables(connection, may_create);
  return outbox;
}

Mapping named(Mapping mapping, const std::string& table) {
  mapping.table = table;
  return mapping;
}

}  // namespace

Session::Session(const std::string& path, const Mapping& mapping, bool may_create,
                 const Clocks& clocks)
    : connection(path, std::chrono::milliseconds{0}),
      schema_version(0),
      outbox(prepare(connection, mapping, may_create)),
      sql(connection, named(mapping, outbox)),
      side_rows(connection, outbox, clocks),
      settler(connection, sql, outbox, side_rows),
      selector(connection, sql, outbox),
      reader(connection, sql, outbox, side_rows, clocks),
      registration(connection, outbox, clocks),
      peers(connection, outbox, clocks),
      circuit(connection.database(),
              "SELECT 1 FROM outbox_relay_brokers WHERE outbox = ?1 AND isolated <> 0 LIMIT 1") {
  // Checked once more under this version: what was changed meanwhile would go unnoticed else.
  schema_version = connection.schema_version();
  require_outbox(connection, mapping);
}

void Session::require_same_schema() {
  if (connection.schema_version() != schema_version) throw SchemaChanged{};
}

bool Session::circuit_held() {
  auto rows = circuit.rows(outbox);
  return rows.next();
}

}  // namespace outbox::sqlite
