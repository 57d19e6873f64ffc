// All that works on one open connection.
#pragma once

#include <string>

#include "storage/sqlite/circuit_board.h"
#include "storage/sqlite/connection.h"
#include "storage/sqlite/incarnation.h"
#include "storage/sqlite/peers.h"
#include "storage/sqlite/row_reader.h"
#include "storage/sqlite/selector.h"
#include "storage/sqlite/settler.h"
#include "storage/sqlite/side_rows.h"
#include "storage/sqlite/sql.h"

namespace outbox::sqlite {

// The schema is not the one that the statements were made for: open anew.
struct SchemaChanged {};

// See OutboxDesk::hold_circuit() and OutboxDesk::pause().
struct Orders {
  bool circuit_held = false;
  bool paused = false;
  std::string why_held;
  bool circuit_open = false;  // the relays of this outbox say so of their broker's
};

// Confined to one thread. Opening throws Unusable, Busy or SQLite::Exception.
struct Session {
  // `broker`: see StoreSettings::broker.
  Session(const std::string& path, const Mapping& wanted, bool may_create,
          const std::string& broker, const Clocks& clocks);

  // Throws SchemaChanged.
  void require_same_schema();
  // What operators have ordered for all relays of this outbox.
  Orders orders();

  Connection connection;
  std::int64_t schema_version;
  Sql sql;
  std::string outbox;
  SideRows side_rows;
  Settler settler;
  Selector selector;
  RowReader reader;
  Registration registration;
  Peers peers;
  CircuitBoard circuits;
  Query operators_orders;
  std::string broker;
};

}  // namespace outbox::sqlite
