// The thread that cleans up.
#include "relay/app/retention_thread.h"

#include <doctest/doctest.h>

#include <condition_variable>
#include <functional>
#include <string>
#include <vector>

#include "empty_desk.h"

namespace outbox {
namespace {

using namespace std::chrono_literals;

// Answers each step as the test says, and remembers what it was asked.
struct CleanDesk final : EmptyDesk {
  using Reply = std::function<Answer<CleanStep>(const CleanRequest&)>;
  explicit CleanDesk(const Reply& asked) : reply(asked) {}
  Answer<CleanStep> clean(const CleanRequest& request) override { return reply(request); }
  const Reply& reply;
};

struct RetentionFixture {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<CleanRequest> requests;
  std::vector<std::string> lines;
  std::vector<Answer<CleanStep>> script;  // what the next steps answer; then every step is the last

  Log log{{.format = LogFormat::json, .level = LogLevel::info}, "pod-1", [this](auto line) {
            const std::lock_guard lock(mutex);
            lines.emplace_back(line);
            changed.notify_all();
          }};
  CleanDesk::Reply reply = [this](const CleanRequest& request) {
    const std::lock_guard lock(mutex);
    requests.push_back(request);
    changed.notify_all();
    if (requests.size() <= script.size()) return script[requests.size() - 1];
    Answer<CleanStep> last;
    last.value.done = true;
    return last;
  };
  StoreBackend store;
  RetentionOptions options;

  RetentionFixture() {
    options.interval = 1ms;
    store.open_desk = [this](const StoreSettings&) { return std::make_unique<CleanDesk>(reply); };
  }

  bool wait_for(const std::function<bool()>& condition) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, 20s, condition);
  }

  static Answer<CleanStep> removing(std::uint64_t rows) {
    Answer<CleanStep> step;
    step.value.processed = rows;
    step.value.rest = 1ms;
    return step;
  }
};

TEST_CASE_FIXTURE(RetentionFixture, "a clean-up is told once, with all that its steps removed") {
  options.interval = 1h;
  script = {removing(3), removing(4)};
  RetentionThread thread(store, {}, options, true, log);
  REQUIRE(wait_for([&] { return !lines.empty(); }));
  CHECK(lines[0].find("\"processed\":7") != std::string::npos);
  CHECK(requests.size() == 3);
  CHECK(requests[0].keyed_dead_stay);
  CHECK(requests[0].processed == options.processed);
  CHECK_FALSE(requests[0].dead_lettered.has_value());
}

TEST_CASE_FIXTURE(RetentionFixture,
                  "with a term of nothing, one line tells what many clean-ups removed") {
  options.processed = 0s;
  options.interval = 1h;
  Answer<CleanStep> dead = removing(1);
  dead.value.dead_lettered = 2;
  dead.value.done = true;
  Answer<CleanStep> more = dead;
  more.value.dead_lettered = 0;
  script = {dead, more, more};
  {
    // New terms begin a clean-up each time, so that no second has to pass.
    RetentionThread thread(store, {}, options, true, log);
    for (std::size_t cleaned = 1; cleaned <= 3; ++cleaned) {
      thread.set(options);
      REQUIRE(wait_for([&] { return requests.size() >= cleaned; }));
    }
  }
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].find("\"dead_lettered\":2") != std::string::npos);
  CHECK(lines[1].find("\"processed\":2") != std::string::npos);
}

TEST_CASE_FIXTURE(RetentionFixture,
                  "a clean-up that fails is told once for each reason, and tried again") {
  Answer<CleanStep> failure;
  failure.error = "no such table";
  script = {failure, failure, removing(1)};
  RetentionThread thread(store, {}, options, false, log);
  REQUIRE(wait_for([&] { return lines.size() >= 2; }));
  CHECK(lines[0].find("no such table") != std::string::npos);
  CHECK(lines[1].find("\"processed\":1") != std::string::npos);
}

TEST_CASE_FIXTURE(RetentionFixture, "other terms hold at once, without waiting for the interval") {
  options.interval = 1h;
  options.processed.reset();
  options.attempts.reset();
  RetentionThread thread(store, {}, options, false, log);
  options.processed = 5min;
  thread.set(options);
  REQUIRE(wait_for([&] { return !requests.empty(); }));
  CHECK(requests[0].processed == 5min);
}

TEST_CASE_FIXTURE(RetentionFixture, "stopping waits for no interval and no rest") {
  options.interval = 1h;
  Answer<CleanStep> step = removing(1);
  step.value.rest = 1h;
  script = {step};
  RetentionThread thread(store, {}, options, false, log);
  REQUIRE(wait_for([&] { return !requests.empty(); }));
  thread.stop();
  CHECK(requests.size() == 1);
}

}  // namespace
}  // namespace outbox
