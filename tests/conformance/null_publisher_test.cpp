#include "publishers/null/null_publisher.h"

#include <doctest/doctest.h>

#include "relay/app/boot_clock.h"
#include "tests/conformance/publisher_conformance.h"

namespace outbox::testing {

namespace {

class NullBroker final : public BrokerUnderTest {
 public:
  PublisherSettings settings() override {
    PublisherSettings settings;
    settings.url = "null:";
    return settings;
  }
  std::unique_ptr<Publisher> open(const PublisherSettings& settings, const Clock& clock,
                                  ReceiptSink& sink) override {
    Backends backends;
    add_null_publisher(backends);
    return backends.publishers.at("null").open(settings, clock, sink);
  }
  bool shows_arrivals() const override { return false; }
  std::vector<Arrival> arrivals() override { return {}; }
  bool stall() override { return false; }
  void resume() override {}
  bool disconnect() override { return false; }
  bool make_unsendable(Message&) override { return false; }
};

}  // namespace

TEST_CASE("null keeps what a publisher promises") {
  check_publisher([] { return std::make_unique<NullBroker>(); });
}

TEST_CASE("null confirms before submit returns") {
  NullBroker broker;
  const BootClock clock;
  RecordingSink sink;
  const Message message = make_message("one");
  const Publication publication = publication_of(message, 9);
  CHECK(broker.open(broker.settings(), clock, sink)->submit(std::span(&publication, 1)) == 1);
  CHECK(sink.only(9).outcome == Outcome::confirmed);
}

TEST_CASE("null refuses a url with something behind the scheme") {
  Backends backends;
  add_null_publisher(backends);
  PublisherSettings settings;
  settings.url = "null://somewhere";
  const auto defects = backends.publishers.at("null").check(settings);
  REQUIRE(defects.size() == 1);
  CHECK(defects[0].setting == "url");
  settings.url = "null:";
  CHECK(backends.publishers.at("null").check(settings).empty());
}

}  // namespace outbox::testing
