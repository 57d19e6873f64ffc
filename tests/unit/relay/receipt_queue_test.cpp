#include "relay/receipt_queue.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "relay/waker.h"

namespace outbox {
namespace {

class CountingBell final : public Bell {
 public:
  void ring() override { ++rings; }
  void hint() override { ++hints; }
  int rings = 0;
  int hints = 0;
};

class SteadyClock final : public Clock {
 public:
  Time now() const override { return Time{std::chrono::steady_clock::now().time_since_epoch()}; }
};

Receipt receipt_of(Ticket ticket) {
  Receipt receipt;
  receipt.ticket = ticket;
  receipt.outcome = Outcome::confirmed;
  return receipt;
}

TEST_CASE("receipts are taken in the order of their arrival, each once") {
  CountingBell bell;
  ReceiptQueue queue(bell);
  for (Ticket ticket = 1; ticket <= 3; ++ticket) queue.deliver(receipt_of(ticket));
  std::vector<Receipt> taken;
  queue.take(taken);
  REQUIRE(taken.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) CHECK(taken[i].ticket == i + 1);
  queue.take(taken);
  CHECK(taken.empty());
}

TEST_CASE("taking replaces what the vector held") {
  CountingBell bell;
  ReceiptQueue queue(bell);
  std::vector<Receipt> taken(5);
  queue.deliver(receipt_of(9));
  queue.take(taken);
  REQUIRE(taken.size() == 1);
  CHECK(taken[0].ticket == 9);
  // What was in the vector must not come back either.
  queue.take(taken);
  CHECK(taken.empty());
}

TEST_CASE("the bell rings for the first receipt since the last taking, as no hint") {
  CountingBell bell;
  ReceiptQueue queue(bell);
  std::vector<Receipt> taken;
  queue.deliver(receipt_of(1));
  CHECK(bell.rings == 1);
  queue.deliver(receipt_of(2));
  CHECK(bell.rings == 1);
  queue.take(taken);
  CHECK(bell.rings == 1);
  queue.deliver(receipt_of(3));
  CHECK(bell.rings == 2);
  CHECK(bell.hints == 0);
}

TEST_CASE("a receipt keeps all it says") {
  CountingBell bell;
  ReceiptQueue queue(bell);
  Receipt receipt = receipt_of(4);
  receipt.outcome = Outcome::throttled;
  receipt.reason = "429 Too Many Requests";
  receipt.sent = true;
  receipt.outcome_unknown = true;
  receipt.took = std::chrono::milliseconds{12};
  receipt.wait = std::chrono::seconds{30};
  receipt.incident = 77;
  queue.deliver(receipt);
  std::vector<Receipt> taken;
  queue.take(taken);
  REQUIRE(taken.size() == 1);
  CHECK(taken[0].outcome == Outcome::throttled);
  CHECK(taken[0].reason == "429 Too Many Requests");
  CHECK(taken[0].sent);
  CHECK(taken[0].outcome_unknown);
  CHECK(taken[0].took == std::chrono::milliseconds{12});
  CHECK(taken[0].wait == std::chrono::seconds{30});
  CHECK(taken[0].incident == 77);
}

// Takes from within the ring, as a relay's thread that wakes at once would.
class TakingBell final : public Bell {
 public:
  void ring() override { queue->take(taken); }
  ReceiptQueue* queue = nullptr;
  std::vector<Receipt> taken;
};

TEST_CASE("a receipt can be taken as soon as the bell rings") {
  TakingBell bell;
  ReceiptQueue queue(bell);
  bell.queue = &queue;
  queue.deliver(receipt_of(5));
  REQUIRE(bell.taken.size() == 1);
  CHECK(bell.taken[0].ticket == 5);
}

TEST_CASE("receipts from several threads all arrive once, each thread's in order") {
  const SteadyClock clock;
  Waker waker(clock);
  ReceiptQueue queue(waker);
  constexpr std::size_t kThreads = 4;
  constexpr std::size_t kEach = 5000;
  std::vector<std::thread> publishers;
  for (std::size_t i = 0; i < kThreads; ++i) {
    publishers.emplace_back([&queue, i] {
      for (std::size_t n = 1; n <= kEach; ++n) queue.deliver(receipt_of(i * 1'000'000 + n));
    });
  }
  std::vector<std::uint64_t> last(kThreads, 0);
  std::vector<Receipt> taken;
  std::size_t total = 0;
  bool in_order = true;
  bool rung = true;
  while (rung && total < kThreads * kEach) {
    rung = waker.wait_until(clock.now() + std::chrono::seconds{30}).rung;
    queue.take(taken);
    total += taken.size();
    for (const Receipt& receipt : taken) {
      std::uint64_t& before = last[receipt.ticket / 1'000'000];
      in_order = in_order && receipt.ticket % 1'000'000 == before + 1;
      before = receipt.ticket % 1'000'000;
    }
  }
  for (std::thread& publisher : publishers) publisher.join();
  CHECK(rung);
  CHECK(in_order);
  CHECK(total == kThreads * kEach);
}

}  // namespace
}  // namespace outbox
