// What one message or a broker in trouble does to the others, against a real RabbitMQ server.
#include <sys/socket.h>

#include <map>
#include <set>

#include "publishers/wire/text.h"
#include "tests/conformance/rabbitmq_test_support.h"
#include "tests/temporary_file.h"

namespace outbox {
namespace {

using namespace testing;
using namespace std::chrono_literals;

// A setting of the running server for as long as this lives, and the default again.
class ServerSetting {
 public:
  ServerSetting(const std::string& name, int value, int usual) : name_(name), usual_(usual) {
    set(value);
  }
  ~ServerSetting() { set(usual_); }
  ServerSetting(const ServerSetting&) = delete;
  ServerSetting& operator=(const ServerSetting&) = delete;

 private:
  void set(int value) {
    server().order(fmt::format("eval 'application:set_env(rabbit, {}, {}).'", name_, value));
  }

  const std::string name_;
  const int usual_;
};

// The relay's part: publishes again what failed, until nothing does, and keeps count.
class Repeater {
 public:
  explicit Repeater(const PublisherSettings& settings) : sender_(settings) {}

  void add(const std::string& id, const std::string& destination = {}, std::size_t size = 10) {
    Row& row = rows_[id];
    row.message = make_message(id);
    row.message.payload = std::string(size, 'x');
    row.destination = destination;
    waiting_.insert(id);
  }

  // All that wait, once, in one go.
  void publish() {
    std::vector<std::string> ids(waiting_.begin(), waiting_.end());
    waiting_.clear();
    for (const std::string& id : ids) sender_.submit(rows_[id].message, rows_[id].destination);
    const Ticket first = submitted_ + 1;
    submitted_ += ids.size();
    REQUIRE(sender_.sink().wait_for(submitted_));
    for (std::size_t i = 0; i < ids.size(); ++i) {
      Row& row = rows_[ids[i]];
      row.last = sender_.sink().only(first + i);
      if (row.last.outcome != Outcome::transport) continue;
      ++row.failures;
      waiting_.insert(ids[i]);
    }
  }
  void publish_until_all_have_ended() {
    for (int round = 0; round < 10 && !waiting_.empty(); ++round) publish();
    CHECK(waiting_.empty());
  }

  const Receipt& last(const std::string& id) const { return rows_.at(id).last; }
  int failures(const std::string& id) const { return rows_.at(id).failures; }
  // Of those whose id begins so.
  int failures_max(const std::string& prefix) const {
    int most = 0;
    for (const auto& [id, row] : rows_) {
      if (id.starts_with(prefix)) most = std::max(most, row.failures);
    }
    return most;
  }
  bool all(const std::string& prefix, Outcome outcome) const {
    return std::ranges::all_of(rows_, [&](const auto& entry) {
      return !entry.first.starts_with(prefix) || entry.second.last.outcome == outcome;
    });
  }

 private:
  struct Row {
    Message message;
    std::string destination;
    Receipt last;
    int failures = 0;
  };
  Sender sender_;
  std::map<std::string, Row> rows_;  // stay where they are
  std::set<std::string> waiting_;
  std::size_t submitted_ = 0;
};

}  // namespace

TEST_CASE("a message that is too large for the broker dies, and harms its neighbours once") {
  RabbitmqUnderTest broker;
  const ServerSetting limit("max_message_size", 2000, 134217728);
  Repeater rows(broker.settings());
  for (int i = 0; i < 60; ++i) rows.add(fmt::format("good-{}", i));
  for (const int i : {5, 20, 50}) rows.add(fmt::format("good-{}-large", i), "", 3000);
  rows.publish_until_all_have_ended();
  CHECK(rows.failures_max("good") == 1);
  for (const int i : {5, 20, 50}) {
    const Receipt& receipt = rows.last(fmt::format("good-{}-large", i));
    CHECK(receipt.outcome == Outcome::refused);
    CHECK(receipt.reason.find("message size 3000 is larger") != std::string::npos);
  }
  CHECK(broker.consumer.drain(broker.name()).size() >= 60);

  // It is known by now what is too large.
  for (int i = 0; i < 60; ++i) rows.add(fmt::format("later-{}", i), "", i == 30 ? 4000 : 10);
  rows.publish_until_all_have_ended();
  CHECK(rows.failures_max("later") == 0);
  CHECK(rows.last("later-30").outcome == Outcome::refused);
  CHECK(broker.consumer.drain(broker.name()).size() == 59);
}

TEST_CASE("what was too large is taken when the broker allows it") {
  RabbitmqUnderTest broker;
  Repeater rows(broker.settings());
  {
    const ServerSetting limit("max_message_size", 2000, 134217728);
    rows.add("large", "", 3000);
    rows.publish();
    CHECK(rows.last("large").outcome == Outcome::refused);
  }
  // A connection keeps the limit that it began with, and ends with the refused message.
  for (int i = 0; i < 20; ++i) rows.add(fmt::format("next-{}", i), "", 3000);
  rows.publish();
  CHECK(rows.all("next", Outcome::confirmed));
}

TEST_CASE("an exchange that may not be written to harms the others once, and is told") {
  RabbitmqUnderTest broker;
  Repeater rows(broker.settings());
  const std::string forbidden = "amq.rabbitmq.trace/";  // internal: nobody may
  for (int i = 0; i < 60; ++i) rows.add(fmt::format("good-{}", i));
  for (int i = 0; i < 60; i += 7) rows.add(fmt::format("good-{}-not", i), forbidden + "a");
  rows.publish_until_all_have_ended();
  CHECK(rows.failures_max("good") == 1);
  CHECK(rows.last("good-7-not").outcome == Outcome::misconfigured);
  CHECK(rows.last("good-7-not").reason.find("ACCESS_REFUSED") != std::string::npos);

  for (int i = 0; i < 60; ++i) {
    rows.add(fmt::format("later-{}", i), i % 9 == 0 ? forbidden + std::to_string(i) : "");
  }
  rows.publish_until_all_have_ended();
  CHECK(rows.failures_max("later") == 0);
  CHECK(rows.last("later-9").outcome == Outcome::misconfigured);
}

TEST_CASE("a routing key that may not be used harms nobody twice, though others may be") {
  RabbitmqUnderTest broker;
  server().order("add_user topical secret");
  server().order("set_permissions topical .* .* .*");
  server().order(fmt::format("set_topic_permissions topical {} ^open$ .*", broker.name()));
  const TemporaryFile password("secret");
  PublisherSettings settings = broker.settings();
  settings.username = "topical";
  settings.password_file = password.path();
  Repeater rows(settings);
  for (int i = 0; i < 30; ++i) rows.add(fmt::format("good-{}", i), "open");
  rows.add("good-15-not", "closed");
  rows.publish_until_all_have_ended();
  CHECK(rows.last("good-15-not").outcome == Outcome::misconfigured);
  for (int i = 0; i < 30; ++i) rows.add(fmt::format("later-{}", i), i == 15 ? "closed" : "open");
  rows.publish_until_all_have_ended();
  CHECK(rows.failures_max("later") == 0);
  CHECK(rows.last("later-15").outcome == Outcome::misconfigured);
  server().order("delete_user topical");
}

TEST_CASE("a reason that is too long is cut between characters") {
  RabbitmqUnderTest broker;
  std::string name;
  for (int i = 0; i < 120; ++i) name += "\xc3\xa9";
  broker.consumer.declare_exchange(name);
  Sender sender(broker.settings());
  for (const char* start : {"", "a"}) {
    const Receipt receipt = sender.publish(make_message("one"), name + "/" + start + name);
    CHECK(receipt.reason.find("NO_ROUTE") != std::string::npos);
    CHECK(receipt.reason.size() > 500);
    CHECK(is_valid_utf8(receipt.reason));
  }
  broker.consumer.delete_exchange(name);
}

TEST_CASE("headers that are too long for the broker's frames are refused before they are sent") {
  RabbitmqUnderTest broker;
  const ServerSetting limit("frame_max", 4096, 131072);
  Sender sender(broker.settings());
  Message fits = make_message("fits");
  fits.headers = {{"long", std::string(3500, 'x')}};
  fits.payload = std::string(10000, 'x');
  CHECK(sender.publish(fits).outcome == Outcome::confirmed);
  Message message = make_message("one");
  message.headers = {{"long", std::string(4000, 'x')}};
  const Receipt receipt = sender.publish(message);
  CHECK(receipt.outcome == Outcome::refused);
  CHECK_FALSE(receipt.sent);
  CHECK(receipt.reason.find("frame_max") != std::string::npos);
  CHECK(sender.publish(fits).outcome == Outcome::confirmed);
  CHECK(broker.proxy.connections() == 1);
}

TEST_CASE("a broker that is blocked while a large message travels is told") {
  RabbitmqUnderTest broker;
  PublisherSettings settings = broker.settings();
  settings.publish_timeout = 2s;
  Sender sender(settings);
  server().order("set_vm_memory_high_watermark 0.00001");
  Message large = make_message("large");
  large.payload = std::string(16u << 20, 'x');
  const Receipt receipt = sender.publish(large);
  CHECK(receipt.outcome == Outcome::throttled);
  CHECK(receipt.reason.find("blocked: low on memory") != std::string::npos);
  server().order("set_vm_memory_high_watermark 0.4");
  const Message small = make_message("small");
  CHECK(eventually([&] { return sender.publish(small).outcome == Outcome::confirmed; }));
}

TEST_CASE("a broker that reads nothing can't hold up the thread that sends heartbeats") {
  RabbitmqUnderTest broker;
  const AmqpEndpoint endpoint = parse_amqp_endpoint(broker.settings().url).endpoint;
  const BootClock clock;
  WriteGuard guard(clock);
  LinkError error;
  const auto link = AmqpLink::open(endpoint, {}, clock.now() + 5s, clock, guard, error);
  REQUIRE(link != nullptr);
  broker.proxy.stall();
  const std::string filler(1u << 20, 'x');
  const Time begin = clock.now();
  std::optional<LinkEvent> event;
  while (!event && clock.now() - begin < 2 * kPatience) {
    while (::send(link->socket(), filler.data(), filler.size(), MSG_DONTWAIT) > 0) {
    }
    event = link->next();
    std::this_thread::sleep_for(20ms);
  }
  REQUIRE(event);
  CHECK(std::holds_alternative<amqp::Closed>(*event));
  // The first heartbeat is due after 10 s, and a broker that says nothing is given up after 20 s.
  CHECK(clock.now() - begin < 16s);
}

}  // namespace outbox
