// What the relays of this outbox say of their broker's circuit: a row of outbox_relay_brokers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "storage/mapping/shared_circuit.h"
#include "storage/sqlite/connection.h"
#include "storage/sqlite/query.h"
#include "storage/sqlite/times.h"

namespace outbox::sqlite {

// Confined to the connection's thread. Writing needs a write transaction.
class CircuitBoard {
 public:
  // `broker`: see StoreSettings::broker.
  CircuitBoard(Connection& connection, std::string outbox, std::string broker,
               const Clocks& clocks);

  bool shared() const { return !broker_.empty(); }

  // Its times count from now.
  SharedCircuit read();
  void write(const SharedCircuit& circuit);
  // The relay of that incarnation ends: another may probe.
  void leave(std::int64_t incarnation);

 private:
  Duration left(std::optional<std::int64_t> until, bool same_boot) const;
  std::int64_t from_now(Duration wait) const;

  const std::string outbox_;
  const std::string broker_;
  const Clocks& clocks_;
  Query read_;
  Query write_;
  Query leave_;
};

}  // namespace outbox::sqlite
