// Whether relays are told of new rows.
#pragma once

#include <cstdint>
#include <optional>

#include "storage/postgres/query.h"
#include "storage/postgres/sql.h"

namespace outbox::postgres {

// The optional trigger that `init` prints. Confined to the connection's thread.
class InsertTrigger {
 public:
  InsertTrigger(Connection& connection, const Sql& sql);

  // Asks the server, but not all the time while there is none.
  bool is_there(Time now);

 private:
  const std::int64_t table_;
  Query find_;
  std::optional<Time> missing_since_;
};

}  // namespace outbox::postgres
