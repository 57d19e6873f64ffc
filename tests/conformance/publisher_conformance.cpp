#include "tests/conformance/publisher_conformance.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "relay/app/boot_clock.h"

namespace outbox::testing {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// submit() copies into a queue; anything near this long means that it waited for the broker.
constexpr seconds kBlocked{2};

struct Batch {
  std::vector<Message> messages;
  std::vector<Publication> publications;

  explicit Batch(std::size_t count, Ticket first_ticket = 1) {
    messages.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      const Ticket ticket = first_ticket + i;
      messages.push_back(make_message("event-" + std::to_string(ticket)));
      publications.push_back(publication_of(messages.back(), ticket));
    }
  }
};

// Submits everything, as a relay does: what was not taken is offered again.
bool submit_all(Publisher& publisher, const std::vector<Publication>& publications) {
  std::size_t taken = 0;
  return eventually([&] {
    taken += publisher.submit(std::span(publications).subspan(taken));
    return taken == publications.size();
  });
}

void check_one_receipt_each(const RecordingSink& sink, std::size_t count) {
  std::vector<Ticket> tickets;
  for (const Receipt& receipt : sink.receipts()) tickets.push_back(receipt.ticket);
  std::ranges::sort(tickets);
  CHECK(tickets.size() == count);
  CHECK(std::ranges::adjacent_find(tickets) == tickets.end());
}

std::vector<Header> sorted(std::vector<Header> headers) {
  std::ranges::sort(headers, {}, [](const Header& h) { return h.name; });
  return headers;
}

void check_arrives_unchanged(BrokerUnderTest& broker) {
  const BootClock clock;
  RecordingSink sink;
  Batch batch(200);
  batch.messages[1].payload = std::string("\x00\xFF\r\n\x80 bytes", 11);
  batch.messages[2].payload.clear();
  batch.messages[3].payload = std::string(300 * 1024, 'x');
  batch.messages[4].payload = R"({"big":12345678901234567890.10,"a":1,"a":2})";
  batch.messages[5].ordering_key = "k\xC3\xA9y \"100%\"";
  batch.messages[6].headers.push_back({"X-Empty", ""});
  const auto publisher = broker.open(broker.settings(), clock, sink);
  REQUIRE(submit_all(*publisher, batch.publications));
  REQUIRE(sink.wait_for(batch.messages.size()));
  check_one_receipt_each(sink, batch.messages.size());
  for (const Receipt& receipt : sink.receipts()) {
    CAPTURE(receipt.reason);
    CHECK(receipt.outcome == Outcome::confirmed);
    CHECK(receipt.sent);
    CHECK_FALSE(receipt.outcome_unknown);
  }
  if (!broker.shows_arrivals()) return;
  const std::vector<Arrival> arrivals = broker.arrivals();
  REQUIRE(arrivals.size() == batch.messages.size());
  for (const Message& message : batch.messages) {
    CAPTURE(message.id);
    const auto found = std::ranges::find(arrivals, message.id, &Arrival::id);
    REQUIRE(found != arrivals.end());
    CHECK(found->event_type == message.event_type);
    CHECK(found->key == message.ordering_key.value_or(""));
    CHECK((found->payload == broker.as_shown(message.payload)));  // not printed: it may be large
    CHECK(sorted(found->headers) == sorted(message.headers));
  }
}

void check_takes_a_prefix(BrokerUnderTest& broker) {
  if (!broker.stall()) {
    MESSAGE("skipped: this broker can't stall");
    return;
  }
  const BootClock clock;
  RecordingSink sink;
  PublisherSettings settings = broker.settings();
  settings.queue_max = 8;
  settings.publish_timeout = seconds{10};
  const Batch batch(20);
  const auto publisher = broker.open(settings, clock, sink);
  const Time before = clock.now();
  std::size_t taken = publisher->submit(batch.publications);
  CHECK(taken == 8);
  CHECK(publisher->submit(std::span(batch.publications).subspan(taken)) == 0);
  CHECK(publisher->submit({}) == 0);
  CHECK(clock.now() - before < kBlocked);
  broker.resume();
  REQUIRE(sink.wait_for(taken));
  CHECK(submit_all(*publisher, {batch.publications.begin() + 8, batch.publications.end()}));
  REQUIRE(sink.wait_for(batch.messages.size()));
  check_one_receipt_each(sink, batch.messages.size());
}

// A relay may submit as soon as it sees a receipt, and waits for the next one if nothing is taken.
void check_place_is_free_with_receipt(BrokerUnderTest& broker) {
  const BootClock clock;
  RecordingSink sink;
  PublisherSettings settings = broker.settings();
  settings.queue_max = 1;
  const Batch batch(300);
  const auto publisher = broker.open(settings, clock, sink);
  for (std::size_t i = 0; i < batch.publications.size(); ++i) {
    REQUIRE(publisher->submit(std::span(batch.publications).subspan(i, 1)) == 1);
    REQUIRE(sink.wait_for(i + 1));
  }
  check_one_receipt_each(sink, batch.messages.size());
}

void check_destructor_reports(BrokerUnderTest& broker) {
  const bool stalled = broker.stall();
  const BootClock clock;
  RecordingSink sink;
  PublisherSettings settings = broker.settings();
  settings.publish_timeout = milliseconds{300};
  const Batch batch(50);
  auto publisher = broker.open(settings, clock, sink);
  const std::size_t taken = publisher->submit(batch.publications);
  const Time before = clock.now();
  publisher.reset();
  CHECK(clock.now() - before < settings.publish_timeout + kBlocked);
  check_one_receipt_each(sink, taken);
  if (!stalled) return;
  const std::vector<Receipt> receipts = sink.receipts();
  const auto unsent = [](const Receipt& r) { return r.outcome == Outcome::cancelled && !r.sent; };
  CHECK(std::ranges::any_of(receipts, unsent));
  for (const Receipt& receipt : receipts) {
    const bool in_time = receipt.outcome == Outcome::transport && receipt.sent;
    CHECK((in_time || unsent(receipt) || receipt.outcome == Outcome::confirmed));
  }
}

void check_too_late_is_not_sent(BrokerUnderTest& broker) {
  const BootClock clock;
  RecordingSink sink;
  Batch batch(3);
  batch.publications[1].start_by = clock.now() - milliseconds{1};
  {
    const auto publisher = broker.open(broker.settings(), clock, sink);
    REQUIRE(submit_all(*publisher, batch.publications));
    REQUIRE(sink.wait_for(3));
  }
  CHECK(sink.only(2).outcome == Outcome::cancelled);
  CHECK_FALSE(sink.only(2).sent);
  CHECK_FALSE(sink.only(2).outcome_unknown);
  CHECK(sink.only(1).outcome == Outcome::confirmed);
  CHECK(sink.only(3).outcome == Outcome::confirmed);
  if (!broker.shows_arrivals()) return;
  for (const Arrival& arrival : broker.arrivals()) CHECK(arrival.id != "event-2");
}

void check_deadline(BrokerUnderTest& broker) {
  if (!broker.stall()) {
    MESSAGE("skipped: this broker can't stall");
    return;
  }
  const BootClock clock;
  RecordingSink sink;
  PublisherSettings settings = broker.settings();
  settings.publish_timeout = milliseconds{200};
  settings.connections = 1;
  Batch batch(1);
  batch.messages[0].payload = std::string(512 * 1024, 'x');  // fills any buffer on the way
  const auto publisher = broker.open(settings, clock, sink);
  const Time before = clock.now();
  REQUIRE(publisher->submit(batch.publications) == 1);
  REQUIRE(sink.wait_for(1));
  const Receipt receipt = sink.only(1);
  CHECK(clock.now() - before >= settings.publish_timeout);
  CHECK(clock.now() - before < settings.publish_timeout + kBlocked);
  CHECK(receipt.outcome == Outcome::transport);
  CHECK(receipt.sent);
  CHECK(receipt.took >= settings.publish_timeout);
  CHECK_FALSE(receipt.reason.empty());
  broker.resume();
}

void check_unsendable_is_refused(BrokerUnderTest& broker) {
  Batch batch(3);
  if (!broker.make_unsendable(batch.messages[1])) {
    MESSAGE("skipped: this broker takes everything");
    return;
  }
  const BootClock clock;
  RecordingSink sink;
  const auto publisher = broker.open(broker.settings(), clock, sink);
  REQUIRE(submit_all(*publisher, batch.publications));
  REQUIRE(sink.wait_for(3));
  CHECK(sink.only(2).outcome == Outcome::refused);
  CHECK_FALSE(sink.only(2).sent);
  CHECK_FALSE(sink.only(2).reason.empty());
  CHECK(sink.only(1).outcome == Outcome::confirmed);
  CHECK(sink.only(3).outcome == Outcome::confirmed);
  if (broker.shows_arrivals()) CHECK(broker.arrivals().size() == 2);
}

void check_order_of_a_key(BrokerUnderTest& broker) {
  if (!broker.shows_arrivals()) return;
  const BootClock clock;
  RecordingSink sink;
  const Batch batch(60);
  const auto publisher = broker.open(broker.settings(), clock, sink);
  for (std::size_t i = 0; i < batch.publications.size(); ++i) {
    REQUIRE(publisher->submit(std::span(batch.publications).subspan(i, 1)) == 1);
    REQUIRE(sink.wait_for(i + 1));
  }
  const std::vector<Arrival> arrivals = broker.arrivals();
  REQUIRE(arrivals.size() == batch.messages.size());
  for (std::size_t i = 0; i < arrivals.size(); ++i) CHECK(arrivals[i].id == batch.messages[i].id);
}

void check_disconnect(BrokerUnderTest& broker) {
  const BootClock clock;
  RecordingSink sink;
  PublisherSettings settings = broker.settings();
  settings.publish_timeout = seconds{1};
  const Batch first(40);
  const Batch second(40, 41);
  const auto publisher = broker.open(settings, clock, sink);
  REQUIRE(submit_all(*publisher, first.publications));
  if (!broker.disconnect()) {
    MESSAGE("skipped: this broker can't go away");
    return;
  }
  REQUIRE(submit_all(*publisher, second.publications));
  REQUIRE(sink.wait_for(80));
  check_one_receipt_each(sink, 80);
  for (const Receipt& receipt : sink.receipts()) {
    if (receipt.ticket <= 40) continue;
    CHECK(receipt.outcome == Outcome::transport);
    CHECK(receipt.sent);
    CHECK_FALSE(receipt.reason.empty());
  }
}

}  // namespace

bool eventually(const std::function<bool()>& holds, std::chrono::milliseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(milliseconds{1});
  }
  return true;
}

void RecordingSink::deliver(Receipt receipt) {
  if (on_receipt) on_receipt(receipt);
  const std::lock_guard lock(mutex_);
  receipts_.push_back(std::move(receipt));
  changed_.notify_all();
}

bool RecordingSink::wait_for(std::size_t count, std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, patience, [&] { return receipts_.size() >= count; });
}

std::vector<Receipt> RecordingSink::receipts() const {
  const std::lock_guard lock(mutex_);
  return receipts_;
}

std::size_t RecordingSink::count() const {
  const std::lock_guard lock(mutex_);
  return receipts_.size();
}

Receipt RecordingSink::only(Ticket ticket) const {
  const std::vector<Receipt> all = receipts();
  REQUIRE(std::ranges::count(all, ticket, &Receipt::ticket) == 1);
  return *std::ranges::find(all, ticket, &Receipt::ticket);
}

Message make_message(const std::string& id) {
  Message message;
  message.id = id;
  message.event_type = "order.created";
  message.ordering_key = "customer-7";
  message.content_type = "application/json";
  message.traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  message.occurred_on = "2024-05-06T07:08:09.123Z";
  message.headers = {{"X-Tenant", "acme"}, {"X-Note", "gr\xC3\xBC\xC3\x9F dich, 100% \"so\""}};
  message.payload = "{\"order\": \"" + id + "\",\n \"amount\": 12.50}";
  message.payload_size = message.payload.size();
  return message;
}

Publication publication_of(const Message& message, Ticket ticket) {
  Publication publication;
  publication.ticket = ticket;
  publication.message = &message;
  publication.start_by = Time::max();
  return publication;
}

void check_publisher(const BrokerFactory& make_broker) {
  const std::unique_ptr<BrokerUnderTest> broker = make_broker();
  SUBCASE("each publication is confirmed once and arrives unchanged") {
    check_arrives_unchanged(*broker);
  }
  SUBCASE("submit takes a prefix and never waits for the broker") { check_takes_a_prefix(*broker); }
  SUBCASE("a place in the queue is free when its receipt is seen") {
    check_place_is_free_with_receipt(*broker);
  }
  SUBCASE("the destructor leaves no receipt owing") { check_destructor_reports(*broker); }
  SUBCASE("what may not start any more is given back unsent") {
    check_too_late_is_not_sent(*broker);
  }
  SUBCASE("an attempt ends by the publish time-out") { check_deadline(*broker); }
  SUBCASE("what can't be sent unchanged is refused and not sent") {
    check_unsendable_is_refused(*broker);
  }
  SUBCASE("a key submitted one at a time arrives in order") { check_order_of_a_key(*broker); }
  SUBCASE("a broker that goes away costs one receipt each, no more and no less") {
    check_disconnect(*broker);
  }
}

}  // namespace outbox::testing
