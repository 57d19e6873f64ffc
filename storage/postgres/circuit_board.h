// What the relays of this outbox say of their broker's circuit: a row of outbox_relay_brokers.
#pragma once

#include <string>

#include "storage/mapping/shared_circuit.h"
#include "storage/postgres/query.h"
#include "storage/postgres/sql.h"

namespace outbox::postgres {

// Confined to the connection's thread; all is called inside a transaction.
class CircuitBoard {
 public:
  // `broker`: see StoreSettings::broker.
  CircuitBoard(Connection& connection, const Sql& sql, std::string broker);

  // Only where the table has columns for it: an older `init` made none.
  void share(const std::string& schema);
  bool shared() const { return shared_; }

  SharedCircuit read(ServerTime now);
  // The same; nobody else changes it before this transaction ends.
  SharedCircuit lock(ServerTime now);
  void write(const SharedCircuit& circuit, ServerTime now);
  // The relay of that incarnation ends: another may probe.
  void leave(std::int64_t incarnation);

 private:
  static SharedCircuit circuit_of(Rows rows, ServerTime now);

  Connection& connection_;
  const std::string outbox_;
  const std::string broker_;
  bool shared_ = false;
  Query read_;
  Query create_;
  Query lock_;
  Query write_;
  Query leave_;
};

}  // namespace outbox::postgres
