#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>

#include "relay/app/boot_clock.h"
#include "relay/app/exit_codes.h"
#include "relay/app/log.h"
#include "relay/app/operations.h"
#include "relay/app/printable.h"
#include "relay/app/talk.h"

namespace outbox {
namespace {

constexpr const char* kTestType = "outbox-relay.test";
// Without a dot, which the id of a signed webhook must not have.
constexpr const char* kTestId = "outbox-relay-test";
constexpr const char* kSaysNothing = "unknown without an event; try --send";

// Waits for the one receipt.
class OneReceipt final : public ReceiptSink {
 public:
  void deliver(Receipt receipt) override {
    const std::lock_guard lock(mutex_);
    if (!receipt_) receipt_ = std::move(receipt);
    arrived_.notify_all();
  }

  std::optional<Receipt> wait(Duration patience) {
    std::unique_lock lock(mutex_);
    arrived_.wait_for(lock, patience, [this] { return receipt_.has_value(); });
    return receipt_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::optional<Receipt> receipt_;  // guarded by mutex_
};

Message test_event() {
  std::random_device device;
  Message message;
  message.id = fmt::format("{}-{:08x}{:08x}", kTestId, device(), device());
  message.event_type = kTestType;
  message.content_type = "application/json";
  message.occurred_on = format_time(std::chrono::system_clock::now());
  message.payload = R"({"test":true,"from":"outbox-relay broker test --send"})";
  message.payload_size = message.payload.size();
  return message;
}

// Sends the event as the relay would, and waits for what becomes of it.
void send_test_event(const PublisherSettings& settings, const PublisherBackend& backend,
                     BrokerTest& test) {
  const BootClock clock;
  const Message event = test_event();
  OneReceipt sink;
  const auto publisher = backend.open(settings, clock, sink);
  Publication publication;
  publication.ticket = 1;
  publication.message = &event;
  publication.start_by = clock.now() + settings.publish_timeout;
  publisher->submit({&publication, 1});
  const auto receipt = sink.wait(2 * settings.publish_timeout + std::chrono::seconds{1});
  const Outcome outcome = receipt ? receipt->outcome : Outcome::transport;
  test.outcome = outcome;
  const std::string reason = receipt ? receipt->reason : "no outcome in time";
  const bool confirmed = outcome == Outcome::confirmed;
  const bool left = !receipt || receipt->sent;
  test.reached = test.reached || confirmed;
  test.steps.push_back(
      {"send", confirmed, confirmed ? fmt::format("the event {} was accepted", event.id) : reason});
  if (confirmed) return;
  const auto told = receipt && backend.explain ? backend.explain(settings, *receipt) : std::nullopt;
  if (told) return test.findings.push_back(*told);
  test.findings.push_back(
      {.severity = Severity::error,
       .code = "broker_send",
       .what = fmt::format("The test event was not accepted: {}.", reason),
       .why = fmt::format("For a real event that means: {}.", meaning_of(outcome)),
       .fix = left ? "Look into the broker's own log for this event's id: " + event.id
                   : "Nothing was sent: mend what the reason says and try again."});
}

std::string to_table(const BrokerTest& test) {
  std::string text;
  for (const BrokerStep& step : test.steps) {
    text += fmt::format("{:<8} {:<7} {}\n", step.name, step.done ? "ok" : "failed",
                        printable_sentence(step.what));
  }
  text += test.outcome ? fmt::format("\nThe relay would take this as {}: {}.\n",
                                     name_of(*test.outcome), meaning_of(*test.outcome))
                       : fmt::format("\nWhat the relay would take this as is {}.\n", kSaysNothing);
  if (!test.findings.empty()) text += "\n" + findings_table(test.findings);
  return text;
}

std::string to_json(const BrokerTest& test, const PublisherSettings& settings) {
  nlohmann::ordered_json body;
  body["broker"] = redacted_url(settings.url);
  body["outcome"] = test.outcome ? name_of(*test.outcome) : "unknown";
  body["meaning"] = test.outcome ? meaning_of(*test.outcome) : kSaysNothing;
  body["steps"] = nlohmann::ordered_json::array();
  for (const BrokerStep& step : test.steps) {
    body["steps"].push_back({{"step", step.name}, {"done", step.done}, {"what", step.what}});
  }
  body["findings"] = to_json(test.findings);
  return dump(body, 2) + "\n";
}

}  // namespace

int test_broker(const Config& config, const Backends& backends, const BrokerTestOptions& options) {
  const PublisherSettings& settings = config.settings.publisher;
  const PublisherBackend& backend = backends.publishers.at(scheme_of(settings.url));
  BrokerTest test;
  if (backend.test) {
    const BootClock clock;
    test = backend.test(settings, clock);
  } else {
    test.reached = true;
    test.outcome = Outcome::confirmed;
    test.steps.push_back({"connect", true, "there is nothing to connect to"});
  }
  const auto failed = [](const BrokerStep& step) { return !step.done; };
  const bool connected = std::ranges::none_of(test.steps, failed) || test.reached;
  if (options.send && connected) {
    // What the broker says to a real event is the answer; what it said before may not matter.
    std::erase_if(test.findings, [](const Finding& one) {
      return one.code == "broker_path" || one.code == "broker_denied" ||
             one.code == "broker_answer";
    });
    send_test_event(settings, backend, test);
  }
  print(options.output == OutputFormat::table ? to_table(test) : to_json(test, settings));
  return exit_code_of(test.findings);
}

}  // namespace outbox
