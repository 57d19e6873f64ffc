// All that works on one open connection.
#pragma once

#include <string>

#include "storage/postgres/circuit_board.h"
#include "storage/postgres/connection.h"
#include "storage/postgres/insert_trigger.h"
#include "storage/postgres/leases.h"
#include "storage/postgres/registration.h"
#include "storage/postgres/row_reader.h"
#include "storage/postgres/selector.h"
#include "storage/postgres/settler.h"
#include "storage/postgres/side_rows.h"
#include "storage/postgres/sql.h"

namespace outbox::postgres {

// `now`: see kServerNow.
// Confined to one thread. Opening throws what Connection throws.
struct Session {
  Session(const StoreSettings& settings, const std::string& now);

  Connection connection;
  Sql sql;
  SideRows side_rows;
  Settler settler;
  Selector selector;
  Leases leases;
  RowReader reader;
  Registration registration;
  InsertTrigger insert_trigger;
  CircuitBoard circuits;
};

}  // namespace outbox::postgres
