// The loop with real threads and a real clock: it wakes for receipts and hints, and ends drained.
#include "relay/relay_loop.h"

#include <doctest/doctest.h>
#include <time.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace outbox {
namespace {

using namespace std::chrono_literals;

class RealClock final : public Clock {
 public:
  Time now() const override {
    timespec time{};
    clock_gettime(CLOCK_BOOTTIME, &time);
    return Time{std::chrono::seconds{time.tv_sec} + std::chrono::nanoseconds{time.tv_nsec}};
  }
};

// Rows appear when the test says so; settled rows are counted.
class CountingStore final : public OutboxStore {
 public:
  Turn turn(const TurnRequest& request) override {
    Turn turn;
    turn.status = TurnStatus::committed;
    for (const Settlement& one : request.settlements) {
      if (one.verdict == Verdict::delivered) ++delivered;
      if (one.verdict == Verdict::released) ++released;
    }
    while (turn.leased.size() < request.lease.limit && waiting.load() > 0) {
      --waiting;
      Message row;
      row.row = std::to_string(++made_);
      row.id = row.row;
      turn.leased.push_back(row);
    }
    turn.renewed = true;
    turn.more = waiting.load() > 0;
    return turn;
  }
  void retire() override {}

  std::atomic<int> waiting{0};
  std::atomic<int> delivered{0};
  std::atomic<int> released{0};

 private:
  int made_ = 0;
};

// Confirms from a thread of its own.
class ThreadedPublisher final : public Publisher {
 public:
  explicit ThreadedPublisher(ReceiptSink& sink) : sink_(sink), thread_([this] { work(); }) {}
  ~ThreadedPublisher() override {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  std::size_t submit(std::span<const Publication> publications) override {
    const std::lock_guard lock(mutex_);
    for (const Publication& one : publications) queue_.push_back(one.ticket);
    changed_.notify_one();
    return publications.size();
  }
  void recall() override {}         // as if everything had begun
  std::atomic<bool> silent{false};  // takes, and never answers until it is destroyed

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (!closing_) {
      changed_.wait(lock, [this] { return closing_ || (!queue_.empty() && !silent); });
      answer(Outcome::confirmed);
    }
    answer(Outcome::cancelled);
  }
  void answer(Outcome outcome) {
    while (!queue_.empty() && (!silent || closing_)) {
      Receipt receipt;
      receipt.ticket = queue_.back();
      receipt.outcome = outcome;
      receipt.sent = outcome == Outcome::confirmed;
      queue_.pop_back();
      sink_.deliver(receipt);
    }
  }

  ReceiptSink& sink_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Ticket> queue_;
  bool closing_ = false;
  std::thread thread_;
};

bool comes_true(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + 20s;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

struct Running {
  explicit Running(RelayOptions options = {}, LoopOptions loop_options = {}) {
    publisher.emplace(receipts);
    relay.emplace(options, store, *publisher, receipts, clock, observer, 1);
    loop.emplace(*relay, waker, tunings, clock, board, loop_options);
    thread = std::jthread([this](std::stop_token stop) { end = loop->run(stop); });
  }
  ~Running() {
    thread.request_stop();
    thread.join();
    publisher.reset();
  }
  void finish() {
    thread.request_stop();
    thread.join();
    thread = std::jthread([] {});
  }

  RealClock clock;
  Waker waker{clock};
  TuningBox tunings{waker};
  ReceiptQueue receipts{waker};
  CountingStore store;
  RelayObserver observer;
  StatusBoard board;
  std::optional<ThreadedPublisher> publisher;
  std::optional<Relay> relay;
  std::optional<RelayLoop> loop;
  LoopEnd end;
  std::jthread thread;
};

RelayOptions patient() {
  RelayOptions options;
  options.poll_interval = 1h;  // only hints and receipts wake it
  return options;
}

TEST_CASE("a hint wakes the loop, and receipts carry the rows to the end") {
  Running running(patient());
  REQUIRE(comes_true([&] { return running.board.read().started; }));
  running.store.waiting = 1000;
  running.waker.hint();
  CHECK(comes_true([&] { return running.store.delivered == 1000; }));
}

TEST_CASE("a shorter poll interval put in the box is taken over at once") {
  Running running(patient());
  REQUIRE(comes_true([&] { return running.board.read().started; }));
  // The first look, which finds nothing, has to be over: the row comes after it and without a hint.
  REQUIRE(comes_true([&] { return running.board.read().status.store_usable; }));
  running.store.waiting = 1;
  RelayTuning tuning;
  tuning.poll_interval = 5ms;
  running.tunings.put(tuning);
  CHECK(comes_true([&] { return running.store.delivered == 1; }));
}

TEST_CASE("a stop drains what is due and ends the loop") {
  Running running(patient());
  running.store.waiting = 5000;
  running.finish();
  CHECK(running.end.drained);
  CHECK(running.store.delivered == 5000);
  CHECK(running.board.read().finished);
}

TEST_CASE("a broker that never answers does not hold the stop longer than its time") {
  LoopOptions short_patience;
  short_patience.drain_timeout = 50ms;
  short_patience.settle_timeout = 50ms;
  RelayOptions options = patient();
  options.in_flight_max = 10;
  options.batch_size = 10;
  Running running(options, short_patience);
  running.publisher->silent = true;
  running.store.waiting = 30;
  running.waker.hint();
  REQUIRE(comes_true([&] { return running.board.read().status.travelling > 0; }));
  running.finish();
  CHECK_FALSE(running.end.drained);
}

}  // namespace
}  // namespace outbox
