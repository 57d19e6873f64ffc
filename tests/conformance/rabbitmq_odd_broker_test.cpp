// Brokers that do what RabbitMQ can't be made to do at will, played by a script.
#include <atomic>
#include <random>

#include "tests/conformance/rabbitmq_test_support.h"
#include "tests/conformance/scripted_broker.h"

namespace outbox {
namespace {

using namespace testing;
using namespace std::chrono_literals;

PublisherSettings settings_for(const ScriptedBroker& broker, Duration publish_timeout = 2s) {
  PublisherSettings settings;
  settings.url = broker.url();
  settings.source = "/test/outbox";
  settings.publish_timeout = publish_timeout;
  return settings;
}

// Submits so many at once, and gives their outcomes.
std::vector<Receipt> publish(const PublisherSettings& settings, std::size_t count) {
  std::vector<Message> messages;
  for (std::size_t i = 1; i <= count; ++i) messages.push_back(make_message(fmt::format("m{}", i)));
  const BootClock clock;
  RecordingSink sink;
  RabbitmqPublisher publisher(settings, clock, sink);
  std::vector<Publication> publications;
  for (std::size_t i = 0; i < count; ++i) {
    publications.push_back(publication_of(messages[i], i + 1));
  }
  REQUIRE(publisher.submit(publications) == count);
  REQUIRE(sink.wait_for(count));
  std::vector<Receipt> receipts;
  for (std::size_t i = 1; i <= count; ++i) receipts.push_back(sink.only(i));
  return receipts;
}

std::string outcomes(const std::vector<Receipt>& receipts) {
  std::string text;
  for (const Receipt& receipt : receipts) {
    text += receipt.outcome == Outcome::transport && receipt.outcome_unknown
                ? "unknown "
                : std::string(name_of(receipt.outcome)) + " ";
  }
  return text;
}

}  // namespace

TEST_CASE("confirms count for the tags that they name, mixed, repeated, or unknown") {
  const ScriptedBroker broker([](ScriptedPeer& peer) {
    peer.greet();
    for (int i = 0; i < 6; ++i) peer.wait_for_publish();
    peer.ack(77);
    peer.nack(0);
    peer.ack(2);
    peer.nack(3, true);
    peer.ack(3, true);
    peer.ack(5);
    peer.nack(5);
    peer.return_message("m6", "abc");
    peer.return_message("nobody", "");
    peer.ack(99, true);
    peer.wait_for_close();
  });
  CHECK(outcomes(publish(settings_for(broker), 6)) ==
        "transport confirmed transport confirmed confirmed misconfigured ");
}

TEST_CASE("what was confirmed before the broker stopped reading is confirmed") {
  std::atomic<bool> over = false;
  const ScriptedBroker broker([&](ScriptedPeer& peer) {
    peer.greet();
    peer.wait_for_publish();
    peer.ack(1);
    eventually([&] { return over.load(); });
  });
  Message large = make_message("large");
  large.payload = std::string(64u << 20, 'x');
  const Message small = make_message("small");
  const BootClock clock;
  RecordingSink sink;
  RabbitmqPublisher publisher(settings_for(broker), clock, sink);
  const std::vector<Publication> both{publication_of(small, 1), publication_of(large, 2)};
  REQUIRE(publisher.submit(both) == 2);
  const bool ended = sink.wait_for(2);
  over = true;
  REQUIRE(ended);
  CHECK(sink.only(1).outcome == Outcome::confirmed);
  CHECK(sink.only(2).outcome == Outcome::transport);
  CHECK(sink.only(2).outcome_unknown);
  CHECK(sink.only(2).reason.find("in time") != std::string::npos);
}

TEST_CASE("a broker that closes the connection is quoted") {
  const ScriptedBroker forced([](ScriptedPeer& peer) {
    peer.greet();
    peer.wait_for_publish();
    peer.ack(1);
    peer.close_connection(320, "CONNECTION_FORCED - shutdown");
    peer.wait_for_close();
  });
  const auto receipts = publish(settings_for(forced), 3);
  CHECK(receipts[0].outcome == Outcome::confirmed);
  CHECK(receipts[1].reason.find("320 CONNECTION_FORCED - shutdown") != std::string::npos);
}

TEST_CASE("whatever a broker answers, each message gets a receipt in time and nothing is lost") {
  const std::string half = wire_number(1, 1) + wire_number(1, 2) + wire_number(500, 4) + "half";
  const std::string huge = wire_number(1, 1) + wire_number(1, 2) + wire_number(0x7FFFFFFF, 4);
  const std::vector<std::function<void(ScriptedPeer&)>> scripts = {
      [](ScriptedPeer& peer) { peer.wait_for_close(); },
      [](ScriptedPeer&) {},
      [](ScriptedPeer& peer) {
        peer.start();
        peer.wait_for_close();
      },
      [](ScriptedPeer& peer) {
        peer.start();
        peer.close_connection(530, "NOT_ALLOWED");
      },
      [](ScriptedPeer& peer) {
        peer.send("HTTP/1.1 400 Bad Request\r\n\r\n");
        peer.wait_for_close();
      },
      [](ScriptedPeer& peer) { peer.greet(); },
      [](ScriptedPeer& peer) {
        peer.greet();
        peer.close_channel(504, "CHANNEL_ERROR");
        peer.wait_for_close();
      },
      [](ScriptedPeer& peer) {
        peer.greet();
        peer.wait_for_publish();
        peer.wait_for_close();
      },
      [&](ScriptedPeer& peer) {
        peer.greet();
        peer.send(half);
        peer.wait_for_close();
      },
      [&](ScriptedPeer& peer) {
        peer.greet();
        peer.wait_for_publish();
        peer.send(half);
      },
      [&](ScriptedPeer& peer) {
        peer.greet();
        peer.send(huge);
        peer.wait_for_close();
      },
      [](ScriptedPeer& peer) {
        peer.greet();
        peer.wait_for_publish();
        peer.send_method(1, 60, 50, "");                 // basic.return without anything
        peer.send_method(1, 20, 20, wire_number(0, 1));  // channel.flow
        peer.send_method(9, 60, 60, wire_text("x"));     // a delivery, on no channel of ours
        peer.wait_for_close();
      },
  };
  for (std::size_t i = 0; i < scripts.size(); ++i) {
    CAPTURE(i);
    const ScriptedBroker broker(scripts[i]);
    for (const Receipt& receipt : publish(settings_for(broker, 1s), 3)) {
      CHECK(receipt.outcome == (i == 3 ? Outcome::misconfigured : Outcome::transport));
      CHECK(receipt.reason != "");
    }
  }
}

TEST_CASE("noise instead of an answer, at any time, is survived") {
  std::minstd_rand random(7);
  for (int round = 0; round < 30; ++round) {
    CAPTURE(round);
    std::string noise(200, '\0');
    for (char& c : noise) c = static_cast<char>(random());
    if (round % 2 == 0) noise[0] = static_cast<char>(1 + random() % 3);
    if (round % 2 == 0) noise.replace(1, 6, wire_number(round % 3, 2) + wire_number(192, 4));
    if (round % 2 == 0) noise.back() = '\xCE';
    const ScriptedBroker broker([&](ScriptedPeer& peer) {
      if (round % 5 != 0) peer.greet();
      if (round % 3 == 0) peer.wait_for_publish();
      peer.send(noise);
    });
    for (const Receipt& receipt : publish(settings_for(broker, 300ms), 3)) {
      CHECK(receipt.outcome != Outcome::confirmed);
      CHECK(receipt.outcome != Outcome::refused);
    }
  }
}

}  // namespace outbox
