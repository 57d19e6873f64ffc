#include "tests/conformance/store_conformance.h"

namespace outbox::conformance {
namespace {

Settlement settlement_of(const Message& message, Verdict verdict) {
  Settlement settlement;
  settlement.row = message.row;
  settlement.lease = message.lease;
  settlement.generation = message.generation;
  settlement.verdict = verdict;
  return settlement;
}

}  // namespace

Turn Client::turn(const std::vector<Settlement>& settlements) {
  ++number_;
  return take(settlements, request, false);
}

Turn Client::repeat(const std::vector<Settlement>& settlements) {
  return take(settlements, request, false);
}

Turn Client::settle(const std::vector<Settlement>& settlements) {
  ++number_;
  LeaseRequest nothing = request;
  nothing.limit = 0;
  return take(settlements, nothing, false);
}

Turn Client::renew() {
  ++number_;
  LeaseRequest nothing = request;
  nothing.limit = 0;
  return take({}, nothing, true);
}

Turn Client::lease(std::size_t limit) {
  ++number_;
  LeaseRequest limited = request;
  limited.limit = limit;
  return take({}, limited, false);
}

Turn Client::tell(const CircuitNews& news) {
  ++number_;
  LeaseRequest nothing = request;
  nothing.limit = 0;
  TurnRequest asked = request_for(nothing);
  asked.circuit = news;
  return store_->turn(asked);
}

Turn Client::probe(Duration kept) {
  ++number_;
  LeaseRequest one = request;
  one.limit = 1;
  one.probe = true;
  one.probe_term = kept;
  return take({}, one, false);
}

Turn Client::ask_for_probe() {
  ++number_;
  LeaseRequest place = request;
  place.limit = 0;
  place.probe = true;
  place.probe_term = std::chrono::seconds{10};
  return take({}, place, true);
}

Turn Client::take(const std::vector<Settlement>& settlements, const LeaseRequest& lease,
                  bool renew) {
  TurnRequest asked = request_for(lease);
  asked.settlements = settlements;
  asked.renew = renew;
  return store_->turn(asked);
}

TurnRequest Client::request_for(const LeaseRequest& lease) {
  TurnRequest asked;
  asked.number = number_;
  asked.lease = lease;
  return asked;
}

Settlement delivered(const Message& message) { return settlement_of(message, Verdict::delivered); }

Settlement retry(const Message& message, Duration delay) {
  Settlement settlement = settlement_of(message, Verdict::retry);
  settlement.delay = delay;
  settlement.kind = FailureKind::transport;
  settlement.reason = "connection refused";
  settlement.charge = 1;
  settlement.counts = true;
  settlement.attempted = true;
  return settlement;
}

Settlement held(const Message& message, Duration delay) {
  Settlement settlement = settlement_of(message, Verdict::held);
  settlement.delay = delay;
  settlement.kind = FailureKind::misconfigured;
  settlement.reason = "401 from the broker";
  settlement.attempted = true;
  return settlement;
}

Settlement dead(const Message& message, DeadReason reason) {
  Settlement settlement = settlement_of(message, Verdict::dead);
  settlement.dead_reason = reason;
  settlement.kind = FailureKind::refused;
  settlement.reason = "refused for good";
  settlement.charge = 1;
  settlement.attempted = true;
  return settlement;
}

Settlement released(const Message& message) { return settlement_of(message, Verdict::released); }

std::vector<std::string> ids_of(const Turn& turn) {
  std::vector<std::string> ids;
  for (const Message& message : turn.leased) ids.push_back(message.id);
  return ids;
}

}  // namespace outbox::conformance
