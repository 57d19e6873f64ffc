// The state machine against a scripted store and a publisher that answers when told.
#include "relay/relay.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace outbox {
namespace {

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

// Hands out the rows it was given, in order; remembers what it was asked. A test replaces `next` to
// answer a turn in its own way.
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
    while (turn.leased.size() < request.lease.limit && !rows.empty()) {
      Message row = rows.front();
      row.lease = epoch + 1;
      turn.leased.push_back(row);
      rows.pop_front();
    }
    turn.more = request.lease.limit > 0 && !rows.empty();
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

Turn without_success(TurnStatus status, std::string error) {
  Turn turn;
  turn.status = status;
  turn.error = std::move(error);
  return turn;
}

RelayOptions by_key() {
  RelayOptions options;
  options.ordering = Ordering::key;
  return options;
}

TEST_CASE("a leased row is sent once and settled as delivered") {
  World world;
  world.add_rows(1);
  world.run_for(100ms);
  REQUIRE(world.publisher.sent == std::vector<std::string>{"id-1"});
  world.publisher.answer(Outcome::confirmed);
  world.run_for(100ms);
  REQUIRE(world.store.settled.size() == 1);
  CHECK(world.store.settled[0].verdict == Verdict::delivered);
  CHECK(world.store.settled[0].lease == 1);
  CHECK(world.relay->status().held == 0);
}

TEST_CASE("one turn settles what was learned and leases the next batch") {
  World world;
  world.add_rows(400);
  world.run_for(100ms);
  CHECK(world.publisher.sent.size() == 200);
  const std::size_t turns = world.store.requests.size();
  for (int i = 0; i < 100; ++i) world.publisher.answer(Outcome::confirmed);
  world.step();
  CHECK(world.store.requests.size() == turns + 1);
  CHECK(world.store.settled.size() == 100);
  CHECK(world.publisher.sent.size() == 300);
}

TEST_CASE("no more rows are held than in_flight_max") {
  RelayOptions options;
  options.in_flight_max = 150;
  World world(options);
  world.publisher.capacity = 20;
  world.add_rows(1000);
  world.run_for(1s);
  CHECK(world.relay->status().held <= 150);
  CHECK(world.publisher.sent.size() == 20);
}

TEST_CASE("a row whose lease ran out while the turn took its time is not sent but given back") {
  World world;
  world.add_rows(3);
  world.store.next = [&](const TurnRequest& request) {
    Turn turn = world.store.commit(request);
    if (!turn.leased.empty()) world.clock.advance(31s);
    return turn;
  };
  world.step();
  CHECK(world.publisher.sent.empty());
  world.store.next = nullptr;
  world.run_for(100ms);
  CHECK(world.store.count(Verdict::released) == 3);
  CHECK(world.publisher.sent.empty());
}

TEST_CASE("a row that could end after its lease is not started") {
  World world;
  world.publisher.capacity = 0;
  world.add_rows(1);
  world.step();
  world.store.next = [&](const TurnRequest&) {
    return without_success(TurnStatus::failed, "disk on fire");
  };
  world.clock.advance(22s + 1ms);  // 30 s - 5 s - 10 %
  world.publisher.capacity = 10;
  world.step();
  CHECK(world.publisher.sent.empty());
}

TEST_CASE("a lease is renewed at a third of its term") {
  World world;
  world.add_rows(1);
  world.run_for(9s);
  const auto renewals = [&] {
    std::size_t found = 0;
    for (const TurnRequest& request : world.store.requests) found += request.renew ? 1 : 0;
    return found;
  };
  CHECK(renewals() == 0);
  world.run_for(2s);
  CHECK(renewals() == 1);
  world.run_for(20s);
  CHECK(renewals() >= 2);
  CHECK(world.relay->status().held == 1);
}

TEST_CASE("leases that may have ended are not revived by a late renewal") {
  World world;
  world.publisher.capacity = 1;
  world.add_rows(3);
  world.step();
  REQUIRE(world.publisher.sent.size() == 1);
  world.clock.advance(31s);  // frozen past the term: the next turn renews, but rows may be gone
  world.publisher.capacity = 10;
  world.run_for(100ms);
  CHECK(world.publisher.sent.size() == 1);
  CHECK(world.store.count(Verdict::released) == 2);
}

TEST_CASE("a publish that was given back unsent goes again, unless its lease has ended since") {
  World world;
  world.add_rows(1);
  world.run_for(10ms);
  world.publisher.answer(Outcome::cancelled);
  world.run_for(10ms);
  CHECK(world.publisher.sent.size() == 2);
  world.clock.advance(31s);
  world.publisher.answer(Outcome::cancelled);
  world.run_for(100ms);
  CHECK(world.publisher.sent.size() == 2);
  CHECK(world.store.count(Verdict::released) == 1);
}

TEST_CASE(
    "rows held when the circuit opens are short-circuited and charged, and nothing is leased") {
  World world;
  world.publisher.capacity = 5;
  world.add_rows(500);
  world.run_for(10ms);
  for (int i = 0; i < 5; ++i) world.publisher.answer(Outcome::transport);
  world.run_for(10ms);
  REQUIRE(world.relay->status().circuit == CircuitState::open);
  CHECK(world.publisher.recalls == 1);
  CHECK(world.recorder.short_circuited == 195);
  std::size_t charged = 0;
  for (const Settlement& one : world.store.settled) charged += one.charge;
  CHECK(charged == world.recorder.attempts + world.recorder.short_circuited);
  const std::size_t left = world.store.rows.size();
  world.run_for(14s);
  CHECK(world.store.rows.size() == left);
}

TEST_CASE("after the break one row is leased as the probe, and its success lets the rest follow") {
  World world;
  world.publisher.capacity = 5;
  world.add_rows(500);
  world.run_for(10ms);
  world.publisher.answer_all(Outcome::transport);
  world.run_for(14s);
  const std::size_t before = world.publisher.sent.size();
  world.run_for(2s);
  REQUIRE(world.publisher.sent.size() == before + 1);
  CHECK(world.store.asked_for_a_probe());
  CHECK(world.relay->status().circuit == CircuitState::half_open);
  world.publisher.answer(Outcome::confirmed);
  world.run_for(1s);
  CHECK(world.relay->status().circuit == CircuitState::closed);
  CHECK(world.store.requests.back().lease.recovered > 0);
  CHECK(world.publisher.sent.size() > before + 1);
}

TEST_CASE("a charging circuit asks for a row to probe with only when a probe may go") {
  RelayOptions options;
  options.breaker.while_open = WhileOpen::charge;
  World world(options);
  world.publisher.capacity = 5;
  world.add_rows(100);
  world.run_for(10ms);
  world.publisher.answer_all(Outcome::transport);
  world.run_for(14s);
  REQUIRE(world.relay->status().circuit == CircuitState::open);
  CHECK_FALSE(world.store.asked_for_a_probe());
  world.run_for(2s);
  CHECK(world.store.asked_for_a_probe());
}

TEST_CASE("just after a break retries get no share of the small window while it grows") {
  World world;
  world.publisher.capacity = 5;
  world.add_rows(500);
  world.run_for(10ms);
  world.publisher.answer_all(Outcome::transport);
  world.run_for(16s);
  world.store.requests.clear();
  world.publisher.answer(Outcome::confirmed);
  world.run_for(10ms);
  REQUIRE(world.relay->status().in_flight_limit == 1);
  CHECK(world.store.requests.back().lease.retry_limit == 0);
  for (int i = 0; i < 20; ++i) {
    world.publisher.answer_all(Outcome::confirmed);
    world.run_for(10ms);
  }
  CHECK(world.store.requests.back().lease.retry_limit > 0);
}

TEST_CASE("a row that can't serve as the probe is followed by the next one no sooner than a poll") {
  RelayOptions options;
  options.breaker.consecutive_failures = 3;
  World world(options);
  world.publisher.capacity = 5;
  world.add_rows(30);
  world.run_for(10ms);
  for (int i = 0; i < 11; ++i) {
    world.publisher.answer(Outcome::misconfigured, "HTTP 403");
    world.run_for(1ms);
  }
  world.publisher.answer_all(Outcome::transport);
  world.run_for(16s);  // the break is over, the destination is still held
  REQUIRE(world.relay->status().circuit == CircuitState::open);
  const std::size_t before = world.store.count(Verdict::held);
  for (int i = 0; i < 100; ++i) {
    world.add_rows(1);
    world.run_for(100ms);
  }
  const std::size_t turned_away = world.store.count(Verdict::held) - before;
  CHECK(turned_away >= 5);
  CHECK(turned_away <= 15);
}

TEST_CASE("probes stay within in_flight_max") {
  RelayOptions options;
  options.in_flight_max = 1;
  options.batch_size = 1;
  options.breaker.probes = 3;
  options.breaker.consecutive_failures = 1;
  World world(options);
  world.add_rows(10);
  world.run_for(10ms);
  world.publisher.answer(Outcome::transport);
  world.run_for(16s);
  CHECK(world.relay->status().held == 1);
}

TEST_CASE("rows of one key travel one at a time, in order") {
  World world(by_key());
  world.add_rows(3, "a");
  world.add_rows(1, "b");
  world.run_for(10ms);
  CHECK(world.publisher.sent == std::vector<std::string>{"id-1", "id-4"});
  world.publisher.answer(Outcome::confirmed);
  world.run_for(10ms);
  CHECK(world.publisher.sent == std::vector<std::string>{"id-1", "id-4", "id-2"});
}

TEST_CASE("when the head of a key must wait, its followers are given back in the same turn") {
  World world(by_key());
  world.add_rows(3, "a");
  world.run_for(10ms);
  world.publisher.answer(Outcome::transport);
  world.run_for(10ms);
  REQUIRE(world.store.settled.size() == 3);
  CHECK(world.store.settled[0].verdict == Verdict::retry);
  CHECK(world.store.settled[1].verdict == Verdict::released);
  CHECK(world.store.settled[2].verdict == Verdict::released);
  CHECK(world.publisher.sent.size() == 1);
}

TEST_CASE("a dead head blocks its key, or is passed, as configured") {
  for (const bool blocks : {true, false}) {
    RelayOptions options = by_key();
    options.dead_blocks_key = blocks;
    World world(options);
    world.add_rows(2, "a");
    world.run_for(10ms);
    world.publisher.answer(Outcome::refused);
    world.run_for(10ms);
    CHECK(world.publisher.sent.size() == (blocks ? 1 : 2));
    CHECK(world.recorder.buried == std::vector<DeadReason>{DeadReason::permanent});
  }
}

TEST_CASE("a turn of unknown outcome is repeated with its number and settlements, then the rest") {
  World world;
  world.add_rows(2);
  world.run_for(10ms);
  world.publisher.answer(Outcome::confirmed);
  int failures = 0;
  world.store.next = [&](const TurnRequest&) {
    ++failures;
    return without_success(TurnStatus::failed, "answer lost");
  };
  world.run_for(20ms);
  REQUIRE(failures == 1);
  const TurnRequest first = world.store.requests.back();
  world.publisher.answer(Outcome::confirmed);
  world.store.next = nullptr;
  world.run_for(200ms);
  REQUIRE(world.store.settled.size() == 2);
  const auto& turns = world.store.settled_in_turn;
  std::vector<std::uint64_t> numbers;
  for (std::size_t i = 0; i < turns.size(); ++i) {
    if (!turns[i].empty()) {
      CHECK(turns[i].size() == 1);
      numbers.push_back(world.store.requests[i].number);
    }
  }
  CHECK(numbers == std::vector<std::uint64_t>{first.number, first.number, first.number + 1});
}

TEST_CASE("a row behind one whose verdict is not written yet is given back, not sent") {
  World world(by_key());
  world.add_rows(1, "a");
  world.run_for(10ms);
  world.store.next = [](const TurnRequest&) {
    return without_success(TurnStatus::failed, "answer lost");
  };
  world.add_rows(2, "a");
  world.step();  // asks for rows; whether it was applied is unknown
  world.publisher.answer(Outcome::transport);
  world.step();
  world.store.next = nullptr;  // the repeat brings the rows behind the one that must wait
  world.run_for(200ms);
  CHECK(world.publisher.sent == std::vector<std::string>{"id-1"});
  CHECK(world.store.count(Verdict::retry) == 1);
  CHECK(world.store.count(Verdict::released) == 2);
}

TEST_CASE("a row leased again while it travels keeps travelling under the new lease") {
  World world;
  world.add_rows(1);
  world.run_for(10ms);
  Message again;
  again.row = "1";
  again.id = "id-1";
  world.clock.advance(31s);
  world.store.rows.push_back(again);
  world.relay->hint();
  world.run_for(100ms);
  CHECK(world.publisher.sent.size() == 1);
  world.publisher.answer(Outcome::confirmed);
  world.run_for(100ms);
  REQUIRE(world.store.settled.size() == 1);
  CHECK(world.store.settled[0].lease == world.store.epoch - 1);
}

TEST_CASE("nothing is sent while the database is not what it should be") {
  World world;
  world.publisher.capacity = 1;
  world.add_rows(3);
  world.step();
  world.store.next = [](const TurnRequest&) {
    return without_success(TurnStatus::unusable, "the file was replaced");
  };
  world.run_for(2s);
  world.publisher.answer(Outcome::confirmed);
  world.publisher.capacity = 10;
  world.run_for(3s);
  CHECK(world.publisher.sent.size() == 1);
  CHECK_FALSE(world.relay->status().store_usable);
  CHECK(world.relay->status().store_error == "the file was replaced");
}

TEST_CASE("stopping leases until nothing is due, then everything is settled") {
  World world;
  world.add_rows(300);
  world.run_for(10ms);
  world.relay->stop();
  for (int i = 0; i < 10 && !world.relay->drained(); ++i) {
    world.publisher.answer_all(Outcome::confirmed);
    world.run_for(10ms);
  }
  CHECK(world.relay->drained());
  CHECK(world.store.count(Verdict::delivered) == 300);
}

TEST_CASE("rows committed while the relay drains are drained, too") {
  World world;
  world.add_rows(10);
  world.run_for(10ms);
  world.relay->stop();
  world.run_for(100ms);
  CHECK_FALSE(world.relay->drained());
  world.add_rows(5);
  for (int i = 0; i < 15; ++i) {
    world.publisher.answer(Outcome::confirmed);
    world.run_for(10ms);
  }
  CHECK(world.relay->drained());
  CHECK(world.store.count(Verdict::delivered) == 15);
}

TEST_CASE("an abandoned drain gives back what does not travel and waits for what does") {
  World world;
  world.publisher.capacity = 1;
  world.add_rows(300);
  world.run_for(10ms);
  world.relay->stop();
  world.relay->abandon();
  world.run_for(10ms);
  CHECK_FALSE(world.relay->drained());
  CHECK(world.store.count(Verdict::released) == world.relay->status().held + 198);
  world.publisher.answer(Outcome::confirmed);
  world.run_for(10ms);
  CHECK(world.relay->drained());
  CHECK(world.store.count(Verdict::delivered) == 1);
}

TEST_CASE("an idle relay steps a few times a second, also while the circuit is open") {
  World world;
  world.run_for(10s);
  CHECK(world.steps <= 25);
  world.add_rows(20);
  world.run_for(10ms);
  world.publisher.answer_all(Outcome::transport);
  world.run_for(100ms);
  REQUIRE(world.relay->status().circuit == CircuitState::open);
  world.store.rows.clear();
  world.steps = 0;
  world.run_for(60s);
  CHECK(world.steps <= 150);
}

TEST_CASE(
    "a misconfigured destination is held, nothing of it dies, and one row probes it a minute") {
  World world;
  world.add_rows(60);
  world.run_for(10ms);
  for (int i = 0; i < 11; ++i) world.publisher.answer(Outcome::misconfigured, "HTTP 403");
  world.run_for(10ms);
  REQUIRE(world.relay->status().held_destinations.size() == 1);
  CHECK(world.relay->status().held_destinations[0].reason == "HTTP 403");
  world.publisher.answer_all(Outcome::misconfigured);
  world.run_for(10ms);
  CHECK(world.store.count(Verdict::held) == 60);
  CHECK(world.recorder.buried.empty());
  const std::size_t sent = world.publisher.sent.size();
  world.add_rows(5);
  world.run_for(59s);
  CHECK(world.publisher.sent.size() == sent);
  world.add_rows(2);
  world.run_for(2s);
  CHECK(world.publisher.sent.size() == sent + 1);
  world.publisher.answer(Outcome::confirmed);
  world.run_for(10ms);
  CHECK(world.relay->status().held_destinations.empty());
}

TEST_CASE("an isolation that stands in the database holds the circuit, also after a restart") {
  World world;
  bool held = true;
  world.store.next = [&](const TurnRequest& request) {
    TurnRequest allowed = request;
    if (held) allowed.lease.limit = 0;
    Turn turn = world.store.commit(allowed);
    turn.circuit_held = held;
    return turn;
  };
  world.add_rows(3);
  world.run_for(1h);
  CHECK(world.publisher.sent.empty());
  CHECK(world.relay->status().circuit == CircuitState::isolated);

  world.relay.emplace(world.options, world.store, world.publisher, world.receipts, world.clock,
                      world.recorder, 8);
  world.add_rows(3);
  world.run_for(1h);
  CHECK(world.publisher.sent.empty());
  CHECK(world.relay->status().circuit == CircuitState::isolated);

  held = false;
  world.run_for(2s);
  CHECK(world.relay->status().circuit == CircuitState::closed);
  CHECK_FALSE(world.publisher.sent.empty());
}

TEST_CASE("a broker that asks to wait is left alone for as long, and held rows are given back") {
  World world;
  world.publisher.capacity = 1;
  world.add_rows(10);
  world.run_for(10ms);
  Receipt receipt;
  receipt.ticket = world.publisher.waiting.front().ticket;
  receipt.outcome = Outcome::throttled;
  receipt.sent = true;
  receipt.wait = 20s;
  world.publisher.waiting.clear();
  world.receipts.deliver(receipt);
  world.run_for(19s);
  CHECK(world.publisher.sent.size() == 1);
  CHECK(world.store.count(Verdict::released) == 9);
  REQUIRE(world.store.count(Verdict::retry) == 1);
  for (const Settlement& one : world.store.settled) {
    if (one.verdict == Verdict::retry) CHECK(one.delay >= 20s);
  }
}

}  // namespace
}  // namespace outbox
