// A world for the state machine: a scripted store and a publisher that answers when told.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "relay/relay.h"

namespace outbox {

using namespace std::chrono_literals;

class ManualClock final : public Clock {
 public:
  Time now() const override { return now_; }
  void advance(Duration by) { now_ += by; }

 private:
  Time now_{1h};
};

class SilentBell final : public Bell {
 public:
  void ring() override {}
};

// Hands out the rows it was given, in order, unless an operator holds them back; remembers what it
// was asked. A test replaces `next` to answer a turn in its own way.
class ScriptedStore final : public OutboxStore {
 public:
  Turn turn(const TurnRequest& request) override {
    requests.push_back(request);
    settled_in_turn.emplace_back(request.settlements.begin(), request.settlements.end());
    Turn answer = next ? next(request) : commit(request);
    if (answer.status == TurnStatus::committed) {
      for (const Settlement& one : request.settlements) settled.push_back(one);
    }
    return answer;
  }
  void retire() override {}

  Turn commit(const TurnRequest& request) {
    Turn turn;
    turn.status = TurnStatus::committed;
    turn.paused = paused;
    turn.circuit_held = circuit_held;
    const std::size_t limit = paused || circuit_held ? 0 : request.lease.limit;
    while (turn.leased.size() < limit && !rows.empty()) {
      Message row = rows.front();
      row.lease = epoch + 1;
      turn.leased.push_back(row);
      rows.pop_front();
    }
    turn.more = limit > 0 && !rows.empty();
    const bool wrote = !request.settlements.empty() || request.renew || !turn.leased.empty();
    if (wrote) turn.epoch = ++epoch;
    turn.renewed = wrote;
    return turn;
  }

  std::size_t count(Verdict verdict) const {
    std::size_t found = 0;
    for (const Settlement& one : settled) found += one.verdict == verdict ? 1 : 0;
    return found;
  }

  bool asked_for_a_probe() const {
    return std::any_of(requests.begin(), requests.end(),
                       [](const TurnRequest& request) { return request.lease.probe; });
  }

  std::deque<Message> rows;
  std::vector<TurnRequest> requests;
  std::vector<std::vector<Settlement>> settled_in_turn;
  std::vector<Settlement> settled;
  LeaseId epoch = 0;
  // As an operator's orders stand in the database.
  bool paused = false;
  bool circuit_held = false;
  std::function<Turn(const TurnRequest&)> next;
};

// Takes up to `capacity` publications and answers each when the test says so.
class ManualPublisher final : public Publisher {
 public:
  explicit ManualPublisher(ReceiptSink& sink) : sink_(sink) {}

  std::size_t submit(std::span<const Publication> publications) override {
    std::size_t taken = 0;
    for (const Publication& publication : publications) {
      if (waiting.size() >= capacity) break;
      waiting.push_back(publication);
      sent.push_back(publication.message->id);
      ++taken;
    }
    return taken;
  }
  void recall() override { ++recalls; }

  void answer(Outcome outcome, std::string reason = "said so") {
    REQUIRE(!waiting.empty());
    Receipt receipt;
    receipt.ticket = waiting.front().ticket;
    receipt.outcome = outcome;
    receipt.reason = outcome == Outcome::confirmed ? std::string{} : std::move(reason);
    receipt.sent = outcome != Outcome::cancelled;
    receipt.outcome_unknown = outcome == Outcome::transport;
    waiting.pop_front();
    sink_.deliver(receipt);
  }
  void answer_all(Outcome outcome) {
    while (!waiting.empty()) answer(outcome);
  }

  std::deque<Publication> waiting;
  std::vector<std::string> sent;
  std::size_t capacity = 1000;
  int recalls = 0;

 private:
  ReceiptSink& sink_;
};

struct Recorder final : RelayObserver {
  void on_circuit(const CircuitChange& change) override { circuits.push_back(change.to); }
  void on_short_circuit(const ShortCircuit& report) override { short_circuited += report.total; }
  void on_burial(const Burial& burial) override { buried.push_back(burial.reason); }
  void on_delivery(const Delivery& delivery) override { attempts += delivery.sent ? 1 : 0; }
  std::vector<CircuitState> circuits;
  std::vector<DeadReason> buried;
  std::size_t short_circuited = 0;
  std::size_t attempts = 0;
};

struct World {
  explicit World(RelayOptions chosen = {}) : options(std::move(chosen)) {
    options.retry.jitter = Jitter::none;
    options.breaker.break_jitter = 0;
    relay.emplace(options, store, publisher, receipts, clock, recorder, 7);
  }

  void add_rows(int count, const std::string& key = {}) {
    for (int i = 0; i < count; ++i) {
      Message row;
      const int number = ++rows_made;
      row.row = std::to_string(number);
      row.id = "id-" + row.row;
      row.event_type = "test.event";
      row.payload = "{}";
      row.payload_size = 2;
      if (!key.empty()) row.ordering_key = key;
      store.rows.push_back(row);
    }
    relay->hint();
  }

  // Steps whenever the relay asks to be called, until `until` has passed.
  void run_for(Duration length) {
    const Time end = clock.now() + length;
    while (true) {
      const Time next = step();
      if (next > end) {
        clock.advance(end - clock.now());
        return;
      }
      clock.advance(std::max<Duration>(next - clock.now(), 10us));
    }
  }
  // Rows of which the first five fail, which opens the circuit.
  void open_circuit(int rows) {
    publisher.capacity = 5;
    add_rows(rows);
    run_for(10ms);
    publisher.answer_all(Outcome::transport);
    run_for(10ms);
    REQUIRE(relay->status().circuit == CircuitState::open);
  }
  Time step() {
    ++steps;
    return relay->step();
  }

  ManualClock clock;
  SilentBell bell;
  ReceiptQueue receipts{bell};
  ScriptedStore store;
  ManualPublisher publisher{receipts};
  Recorder recorder;
  RelayOptions options;
  std::optional<Relay> relay;
  int rows_made = 0;
  int steps = 0;
};

inline Turn without_success(TurnStatus status, std::string error) {
  Turn turn;
  turn.status = status;
  turn.error = std::move(error);
  return turn;
}

inline RelayOptions by_key() {
  RelayOptions options;
  options.ordering = Ordering::key;
  return options;
}

}  // namespace outbox
