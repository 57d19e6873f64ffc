// Small parts of the program: sampling, health, several observers, a damaged file.
#include <doctest/doctest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>

#include "config_fixture.h"
#include "empty_desk.h"
#include "relay/app/backlog_sampler.h"
#include "relay/app/boot_clock.h"
#include "relay/app/digest.h"
#include "relay/app/fan_out_observer.h"
#include "relay/app/program_health.h"
#include "relay/random.h"

namespace outbox {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

// Answers with an error as often as it is told, then with a backlog.
class FlakyDesk final : public EmptyDesk {
 public:
  explicit FlakyDesk(std::atomic<int>& failures) : failures_(failures) {}

  Answer<Backlog> backlog() override {
    if (failures_ > 0) {
      --failures_;
      return {{}, "no table outbox_messages"};
    }
    Backlog backlog;
    backlog.pending = 7;
    return {backlog, {}};
  }

 private:
  std::atomic<int>& failures_;
};

struct SamplerFixture {
  BootClock clock;
  Metrics metrics{{}, clock};
  Log log{{}, "pod-1", [](std::string_view) {}};
  std::atomic<int> failures = 0;
  StoreBackend store;

  std::mutex mutex;
  std::condition_variable sampled;
  int samples = 0;

  SamplerFixture() {
    store.open_desk = [this](const StoreSettings&) {
      return std::make_unique<FlakyDesk>(failures);
    };
  }

  BacklogSampler::Take take() {
    return [this](const Backlog& backlog, Time) {
      const std::lock_guard lock(mutex);
      if (backlog.pending == 7) ++samples;
      sampled.notify_all();
    };
  }

  bool wait_for_samples(int count) {
    std::unique_lock lock(mutex);
    return sampled.wait_for(lock, seconds{20}, [&] { return samples >= count; });
  }
};

TEST_CASE_FIXTURE(SamplerFixture, "the backlog is sampled at once and then each interval") {
  BacklogSampler sampler(store, {}, milliseconds{5}, {metrics, log, clock}, take());
  CHECK(wait_for_samples(3));
}

TEST_CASE_FIXTURE(SamplerFixture,
                  "a sample that failed is tried again long before a long interval ends") {
  failures = 1;
  BacklogSampler sampler(store, {}, hours{1}, {metrics, log, clock}, take());
  CHECK(wait_for_samples(1));
}

TEST_CASE_FIXTURE(SamplerFixture,
                  "stopping doesn't wait for the interval, and one more sample can be had") {
  BacklogSampler sampler(store, {}, hours{1}, {metrics, log, clock}, take());
  REQUIRE(wait_for_samples(1));
  sampler.stop();
  const auto last = sampler.sample();
  REQUIRE(last.has_value());
  CHECK(last->pending == 7);
  failures = 1;
  CHECK_FALSE(sampler.sample().has_value());
}

class HandClock final : public Clock {
 public:
  Time now() const override { return now_; }
  void pass(Duration duration) { now_ += duration; }

 private:
  Time now_{seconds{1'000}};
};

TEST_CASE("a loop that has not begun in time is stalled, and one that comes round is not") {
  HandClock clock;
  StatusBoard board;
  ProgramHealth health(board, clock, minutes{2});
  CHECK_FALSE(startup_of(health.health()).ok);
  health.on_set_up();
  CHECK(startup_of(health.health()).ok);
  CHECK(liveness_of(health.health()).ok);
  clock.pass(minutes{3});
  CHECK_FALSE(liveness_of(health.health()).ok);
  RelayStatus status;
  status.store_usable = true;
  board.write(status, clock.now());
  CHECK(liveness_of(health.health()).ok);
  CHECK(readiness_of(health.health()).ok);
  clock.pass(minutes{3});
  CHECK_FALSE(liveness_of(health.health()).ok);
  board.write(status, clock.now());
  health.on_stopping();
  CHECK(liveness_of(health.health()).ok);
  CHECK_FALSE(readiness_of(health.health()).ok);
}

TEST_CASE("an unusable store makes the program not ready, but alive, and says why") {
  HandClock clock;
  StatusBoard board;
  ProgramHealth health(board, clock, minutes{2});
  RelayStatus status;
  status.store_error = "no file /data/app.db";
  board.write(status, clock.now());
  CHECK(liveness_of(health.health()).ok);
  CHECK_FALSE(readiness_of(health.health()).ok);
  CHECK(readiness_of(health.health()).reason == "no file /data/app.db");
}

// Counts what it is told.
struct CountingObserver final : RelayObserver {
  void on_turn(const TurnReport&) override { ++calls; }
  void on_delivery(const Delivery&) override { ++calls; }
  void on_short_circuit(const ShortCircuit&) override { ++calls; }
  void on_burial(const Burial&) override { ++calls; }
  void on_circuit(const CircuitChange&) override { ++calls; }
  void on_probe() override { ++calls; }
  void on_destination(const DestinationChange&) override { ++calls; }
  void on_in_flight_limit(std::size_t) override { ++calls; }
  int calls = 0;
};

TEST_CASE("every observer hears everything") {
  CountingObserver first;
  CountingObserver second;
  FanOutObserver both({&first, &second});
  RelayObserver& observer = both;
  observer.on_turn({});
  observer.on_delivery({});
  observer.on_short_circuit({});
  observer.on_burial({});
  observer.on_circuit({});
  observer.on_probe();
  observer.on_destination({});
  observer.on_in_flight_limit(1);
  CHECK(first.calls == 8);
  CHECK(second.calls == 8);
}

TEST_CASE("the digest is SHA-256") {
  CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_CASE("the machine's clock does not run backwards") {
  const BootClock clock;
  const Time before = clock.now();
  CHECK(clock.now() >= before);
  CHECK(before.time_since_epoch() > Duration::zero());
}

std::string damaged(std::string text, Random& random) {
  constexpr std::string_view kPieces = "{}[]:,\"'\n\t -#&*!|>%@`?$\xff\0~";
  for (std::uint64_t cuts = 1 + random.below(4); cuts > 0; --cuts) {
    const auto at = random.below(text.size());
    const char piece = kPieces[random.below(kPieces.size())];
    if (random.chance(0.3)) {
      text.erase(at, random.below(20));
    } else if (random.chance(0.5)) {
      text.insert(at, 1 + random.below(3), piece);
    } else {
      text[at] = piece;
    }
    if (text.empty()) return text;
  }
  return text;
}

TEST_CASE("a damaged file is told in whole lines, and never ends the program") {
  const std::string whole =
      std::string(kMinimal) +
      "routes: [{match: {eventType: \"a.*\"}, destination: \"{eventType}\"}]\n"
      "relay: { batchSize: 10, leaseTerm: 20s }\n"
      "retry:\n  redeliveryIntervals: [1m, 2m]\n  factor: 1.5\n";
  Random random(20'261'130);
  int refused = 0;
  for (int round = 0; round < 400; ++round) {
    const auto text = damaged(whole, random);
    const auto config = config_of(text);
    refused += config.usable() ? 0 : 1;
    for (const auto& line : lines_of(config)) {
      CHECK(line.find('\n') == std::string::npos);
      CHECK(line.find('\t') == std::string::npos);
    }
  }
  CHECK(refused > 100);
  CHECK(refused < 400);
}

TEST_CASE("a file nested very deeply is refused") {
  CHECK_FALSE(config_of(std::string(50'000, '[')).usable());
  CHECK_FALSE(config_of(std::string(5'000, '{') + std::string(5'000, '}')).usable());
  std::string routes = "routes: ";
  for (int depth = 0; depth < 40; ++depth) routes += "[";
  for (int depth = 0; depth < 40; ++depth) routes += "]";
  CHECK_FALSE(config_of(std::string(kMinimal) + routes).usable());
}

TEST_CASE("a file of more than 1 MiB is refused unread") {
  const auto lines = lines_of(config_of(std::string(2U << 20U, '#')));
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].find("larger than 1MiB") != std::string::npos);
}

}  // namespace
}  // namespace outbox
