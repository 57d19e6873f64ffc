#include "storage/sqlite/circuit_board.h"

#include <utility>

namespace outbox::sqlite {

CircuitBoard::CircuitBoard(Connection& connection, std::string outbox, std::string broker,
                           const Clocks& clocks)
    : outbox_(std::move(outbox)),
      broker_(std::move(broker)),
      clocks_(clocks),
      read_(connection.database(),
            "SELECT verdict, coalesce(state = 'open', 0), boot, open_until, probe_by, probe_until, "
            "reason FROM outbox_relay_brokers WHERE outbox = ?1 AND broker = ?2"),
      write_(connection.database(),
             "INSERT INTO outbox_relay_brokers (outbox, broker, verdict, state, boot, open_until, "
             "probe_by, probe_until, reason, updated) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, "
             "?10) ON CONFLICT (outbox, broker) DO UPDATE SET verdict = ?3, state = ?4, boot = ?5, "
             "open_until = ?6, probe_by = ?7, probe_until = ?8, reason = ?9, updated = ?10"),
      leave_(connection.database(),
             "UPDATE outbox_relay_brokers SET probe_by = NULL, probe_until = NULL "
             "WHERE outbox = ?1 AND broker = ?2 AND probe_by = ?3") {}

SharedCircuit CircuitBoard::read() {
  SharedCircuit circuit;
  auto rows = read_.rows(outbox_, broker_);
  if (!rows.next()) return circuit;
  const bool same_boot = rows.maybe_integer(2) == clocks_.boot_number();
  circuit.number = rows.integer(0);
  circuit.open = rows.integer(1) != 0;
  circuit.break_left = left(rows.maybe_integer(3), same_boot);
  circuit.probe_by = rows.maybe_integer(4).value_or(0);
  circuit.probe_left = left(rows.maybe_integer(5), same_boot);
  circuit.reason = rows.maybe_text(6).value_or("");
  return circuit;
}

void CircuitBoard::write(const SharedCircuit& circuit) {
  const bool probed = circuit.probe_by != 0;
  write_.run(outbox_, broker_, circuit.number,
             circuit.open ? std::optional<std::string>("open") : std::nullopt,
             clocks_.boot_number(), from_now(circuit.break_left),
             probed ? std::optional(circuit.probe_by) : std::nullopt,
             probed ? std::optional(from_now(circuit.probe_left)) : std::nullopt, circuit.reason,
             to_text(clocks_.wall()));
}

void CircuitBoard::leave(std::int64_t incarnation) {
  if (shared()) leave_.run(outbox_, broker_, incarnation);
}

// After a reboot nothing of it holds any more.
Duration CircuitBoard::left(std::optional<std::int64_t> until, bool same_boot) const {
  if (!until || !same_boot) return Duration{0};
  return Duration(*until) - clocks_.boot->now().time_since_epoch();
}

std::int64_t CircuitBoard::from_now(Duration wait) const {
  return (clocks_.boot->now().time_since_epoch() + wait).count();
}

}  // namespace outbox::sqlite
