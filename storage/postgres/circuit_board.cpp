#include "storage/postgres/circuit_board.h"

#include <fmt/format.h>

#include <utility>

#include "storage/postgres/schema.h"

namespace outbox::postgres {
namespace {

std::string read_sql(const Sql& sql) {
  return fmt::format(
      "SELECT verdict, state = 'open', open_until, probe_by, probe_until, reason FROM {} "
      "WHERE outbox = $1 AND broker = $2",
      sql.brokers());
}

ServerTime later(ServerTime now, Duration wait) {
  return now + std::chrono::ceil<std::chrono::microseconds>(wait);
}

}  // namespace

CircuitBoard::CircuitBoard(Connection& connection, const Sql& sql, std::string broker)
    : connection_(connection),
      outbox_(sql.outbox()),
      broker_(std::move(broker)),
      read_(connection, read_sql(sql)),
      create_(connection, fmt::format("INSERT INTO {} (outbox, broker) VALUES ($1, $2) "
                                      "ON CONFLICT DO NOTHING",
                                      sql.brokers())),
      lock_(connection, read_sql(sql) + " FOR UPDATE"),
      write_(connection,
             fmt::format("UPDATE {} SET verdict = $3, state = CASE WHEN $4 THEN 'open' END, "
                         "open_until = $5, probe_by = $6, probe_until = $7, reason = $8, "
                         "updated = $9 WHERE outbox = $1 AND broker = $2",
                         sql.brokers())),
      leave_(connection, fmt::format("UPDATE {} SET probe_by = NULL, probe_until = NULL "
                                     "WHERE outbox = $1 AND broker = $2 AND probe_by = $3",
                                     sql.brokers())) {}

void CircuitBoard::share(const std::string& schema) {
  shared_ = !broker_.empty() && has_verdict_columns(connection_, schema);
}

SharedCircuit CircuitBoard::read(ServerTime now) {
  return circuit_of(read_.rows(outbox_, broker_), now);
}

SharedCircuit CircuitBoard::lock(ServerTime now) {
  create_.run(outbox_, broker_);
  return circuit_of(lock_.rows(outbox_, broker_), now);
}

SharedCircuit CircuitBoard::circuit_of(Rows rows, ServerTime now) {
  SharedCircuit circuit;
  if (!rows.next()) return circuit;
  circuit.number = rows.integer(0);
  circuit.open = rows.boolean(1);
  if (const auto until = rows.maybe_time(2)) circuit.break_left = *until - now;
  circuit.probe_by = rows.integer(3);
  if (const auto until = rows.maybe_time(4)) circuit.probe_left = *until - now;
  circuit.reason = rows.text(5);
  return circuit;
}

void CircuitBoard::write(const SharedCircuit& circuit, ServerTime now) {
  const bool probed = circuit.probe_by != 0;
  write_.run(outbox_, broker_, circuit.number, circuit.open, later(now, circuit.break_left),
             probed ? std::optional(circuit.probe_by) : std::nullopt,
             probed ? std::optional(later(now, circuit.probe_left)) : std::nullopt, circuit.reason,
             now);
}

void CircuitBoard::leave(std::int64_t incarnation) {
  if (shared_) leave_.run(outbox_, broker_, incarnation);
}

}  // namespace outbox::postgres
