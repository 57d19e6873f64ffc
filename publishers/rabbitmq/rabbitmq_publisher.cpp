#include "publishers/rabbitmq/rabbitmq_publisher.h"

#include <amqp.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <utility>

#include "publishers/rabbitmq/link_test.h"
#include "publishers/wire/quiet_thread.h"
#include "publishers/wire/text.h"

namespace outbox {

namespace {

// Larger windows buy little and multiply the latency.
constexpr std::size_t kWindow = 128;
// Heartbeats want to be looked after.
constexpr std::chrono::milliseconds kTick{500};
constexpr std::size_t kReasonMax = 512;

Flight flight_of(const Publication& publication, const AmqpMessage& message) {
  Flight flight;
  flight.publication = publication;
  flight.exchange = message.exchange;
  flight.routing_key = message.routing_key;
  return flight;
}

// What to make of the message over which the broker closed the channel.
Outcome outcome_of_closing(int code) {
  switch (code) {
    case AMQP_CONTENT_TOO_LARGE:
    case AMQP_PRECONDITION_FAILED:
      return Outcome::refused;
    case AMQP_ACCESS_REFUSED:
    case AMQP_NOT_FOUND:
      return Outcome::misconfigured;
    default:
      return Outcome::transport;
  }
}

// Rather than because an operator wanted it, or without a word.
bool closed_over_a_message(int code) { return code != 0 && code != AMQP_CONNECTION_FORCED; }

}  // namespace

RabbitmqPublisher::RabbitmqPublisher(const PublisherSettings& settings, const Clock& clock,
                                     ReceiptSink& sink)
    : settings_(settings),
      endpoint_(parse_amqp_endpoint(settings.url).endpoint),
      builder_(settings),
      clock_(clock),
      guard_(clock),
      queue_(settings.queue_max, sink),
      thread_(start_quiet_thread([this] { work(); })) {}

RabbitmqPublisher::~RabbitmqPublisher() {
  queue_.close();
  wake_.ring();
  thread_.join();
}

std::size_t RabbitmqPublisher::submit(std::span<const Publication> publications) {
  const std::size_t taken = queue_.submit(publications);
  if (taken > 0) wake_.ring();
  return taken;
}

void RabbitmqPublisher::recall() {
  queue_.recall();
  recall_.store(true);
  wake_.ring();
}

void RabbitmqPublisher::work() {
  while (true) {
    hear();
    expire();
    start_all();
    if (queue_.closed() && flights_.empty() && !held_back_) return;
    if (!link_ || !link_->has_more()) wait();
  }
}

// One publication more stands in held_back_; false if there is none.
bool RabbitmqPublisher::take_next() {
  if (recall_.exchange(false) || queue_.closed()) {
    if (held_back_) {
      report_unsent(*held_back_, Outcome::cancelled, "called back before it began");
    }
    held_back_.reset();
  }
  if (held_back_) return true;
  Publication publication;
  if (!queue_.try_take(publication)) return false;
  held_back_ = std::move(publication);
  return true;
}

void RabbitmqPublisher::start_all() {
  while (flights_.size() < kWindow && blocked_.empty() && take_next()) {
    const AmqpMessage message = builder_.build(*held_back_);
    Flight flight = flight_of(*held_back_, message);
    if (!message.error.empty()) {
      report_unsent(*held_back_, Outcome::refused, "not sent: " + message.error);
    } else if (clock_.now() > held_back_->start_by) {
      report_unsent(*held_back_, Outcome::cancelled, "too late to start within the lease");
    } else if (!may_start(flight)) {
      return;
    } else {
      start(std::move(flight), message);
    }
    held_back_.reset();
  }
}

bool RabbitmqPublisher::may_start(const Flight& flight) const {
  return flights_.empty() || (!alone_ && !suspects_.contains(flight));
}

void RabbitmqPublisher::start(Flight flight, const AmqpMessage& message) {
  flight.start = clock_.now();
  flight.deadline = flight.start + settings_.publish_timeout;
  LinkError error;
  if (!link_ && !connect(flight.deadline, error)) {
    report(flight, error.outcome, error.reason, false, incident_);
    fail_waiting(error);
    return;
  }
  put(std::move(flight), message);
}

// Connected.
void RabbitmqPublisher::put(Flight flight, const AmqpMessage& message) {
  if (auto missing = link_->find_exchange(message.exchange, flight.deadline)) {
    if (missing->outcome == Outcome::misconfigured) {
      report(flight, missing->outcome, missing->reason, false, 0);
      return;
    }
    break_off(missing->reason);
    report(flight, Outcome::transport, missing->reason, false, incident_);
    return;
  }
  if (const std::string why = link_->size_defect(message); !why.empty()) {
    return report_unsent(flight.publication, Outcome::refused, "not sent: " + why);
  }
  alone_ = suspects_.contains(flight);
  const auto lost = link_->publish(message, flight.deadline);
  // Also if it was lost: how much of it is on the wire, nobody knows.
  flights_.add(link_->last_tag(), std::move(flight));
  if (lost) break_off(lost->reason);
}

// No queue is bound for it where it was to go: it goes, within the same attempt, where those go.
void RabbitmqPublisher::divert(Flight flight) {
  if (!link_ || !broken_.empty()) {
    report(flight, Outcome::transport, "the connection was lost", false, incident_);
    return;
  }
  AmqpMessage message = builder_.build(flight.publication);
  message.exchange = settings_.unroutable_exchange;
  flight.exchange = message.exchange;
  flight.returned.clear();
  put(std::move(flight), message);
}

// Each of those that wait would have met the same.
void RabbitmqPublisher::fail_waiting(const LinkError& error) {
  Publication publication;
  for (std::size_t i = 1; i < kWindow && queue_.try_take(publication); ++i) {
    Flight flight;
    flight.publication = std::move(publication);
    flight.start = clock_.now();
    report(flight, error.outcome, error.reason, false, incident_);
  }
}

bool RabbitmqPublisher::connect(Time deadline, LinkError& error) {
  AmqpEndpoint endpoint = endpoint_;
  if (std::string why = read_login(settings_, endpoint); !why.empty()) {
    error = {Outcome::misconfigured, std::move(why)};
    return false;
  }
  blocked_.clear();
  alone_ = false;
  link_ = AmqpLink::open(endpoint, settings_.tls, deadline, clock_, guard_, error);
  if (!link_) {
    ++incident_;
    return false;
  }
  const auto expires = link_->certificates_expire();
  if (expires && settings_.on_certificate) settings_.on_certificate(*expires);
  return true;
}

void RabbitmqPublisher::wait() {
  const Time now = clock_.now();
  Duration left = kTick;
  if (const auto deadline = flights_.next_deadline()) left = std::min(left, *deadline - now);
  const auto rounded = std::chrono::ceil<std::chrono::milliseconds>(std::max(left, Duration{0}));
  std::array<pollfd, 2> descriptors{{{wake_.descriptor(), POLLIN, 0}, {-1, POLLIN, 0}}};
  if (link_) descriptors[1].fd = link_->socket();
  ::poll(descriptors.data(), descriptors.size(), static_cast<int>(rounded.count()));
  wake_.clear();
}

void RabbitmqPublisher::hear() {
  while (link_) {
    const auto event = link_->next();
    if (!event) return;
    std::visit([this](const auto& what) { on(what); }, *event);
  }
}

void RabbitmqPublisher::on(const amqp::Confirm& confirm) {
  const std::string& unroutable = settings_.unroutable_exchange;
  last_confirm_ = clock_.now();
  for (Flight& flight : flights_.settle(confirm.tag, confirm.multiple)) {
    suspects_.clear(flight, confirm.taken && flight.returned.empty());
    if (!flight.returned.empty() && !unroutable.empty() && flight.exchange != unroutable) {
      divert(std::move(flight));
    } else if (!flight.returned.empty()) {
      report(flight, Outcome::misconfigured, flight.returned, false, 0);
    } else if (confirm.taken) {
      report(flight, Outcome::confirmed, {}, false, 0);
    } else {
      report(flight, Outcome::transport,
             "the broker did not take it (basic.nack): a queue is full or has failed", false, 0);
    }
  }
  if (flights_.empty()) alone_ = false;
}

void RabbitmqPublisher::on(const amqp::Return& back) {
  flights_.mark_returned(back.id, back.reason);
}

void RabbitmqPublisher::on(const amqp::Blocked& blocked) {
  blocked_ = blocked.reason;
  blocked_since_ = clock_.now();
}

// Which message the broker means, it does not say. One that was alone can only be meant itself;
// else all go again, alone.
void RabbitmqPublisher::on(const amqp::Closed& closed) {
  if (closed.code == 0 && !broken_.empty()) return lose_broken();
  lose({closed.reason, outcome_of_closing(closed.code), closed_over_a_message(closed.code)});
}

// The connection can't be written to any more. What the broker said before that still counts:
// confirms, that it is blocked, why it has closed.
void RabbitmqPublisher::break_off(const std::string& reason) {
  broken_ = reason;
  hear();
  if (link_) lose_broken();
  broken_.clear();
}

void RabbitmqPublisher::lose_broken() {
  if (blocked_.empty()) return lose({broken_});
  lose({blocked_, Outcome::throttled});
}

// Ends everything in flight together with the connection.
void RabbitmqPublisher::lose(const Loss& loss) {
  link_.reset();
  blocked_.clear();
  alone_ = false;
  ++incident_;
  const std::vector<Flight> flights = flights_.take_all();
  const bool known = !loss.over_a_message || flights.size() == 1;
  const Outcome outcome = known ? loss.outcome : Outcome::transport;
  const bool unknown = outcome == Outcome::transport || outcome == Outcome::throttled;
  for (const Flight& flight : flights) {
    suspects_.clear(flight, false);
    if (unknown && loss.over_a_message) suspects_.suspect(flight, loss.reason);
    if (outcome == Outcome::refused) suspects_.convict_size(flight);
    if (outcome == Outcome::misconfigured) suspects_.convict_place(flight);
    report(flight, outcome, loss.reason, unknown, incident_);
  }
}

void RabbitmqPublisher::expire() {
  const Time now = clock_.now();
  const std::string in_time = fmt::format("no confirm in time ({})",
                                          std::chrono::duration<double>(settings_.publish_timeout));
  const std::vector<Flight> expired = flights_.take_expired(now);
  for (const Flight& flight : expired) {
    if (blocked_.empty()) {
      report(flight, Outcome::transport, in_time, true, 0);
    } else {
      report(flight, Outcome::throttled, blocked_, true, 0);
    }
  }
  if (!expired.empty() && blocked_.empty()) give_up_silent_link(expired.back().start);
  const bool patient = now - blocked_since_ < settings_.publish_timeout;
  if (!blocked_.empty() && !patient) turn_away();
}

// All that was sent ran out of time, and nothing was confirmed meanwhile: the connection may be
// dead, which the heartbeats would tell only much later. The next attempt makes another one.
void RabbitmqPublisher::give_up_silent_link(Time since) {
  if (flights_.empty() && last_confirm_ < since) link_.reset();
}

// Nobody waits longer for the broker to be unblocked than an attempt lasts.
void RabbitmqPublisher::turn_away() {
  while (take_next()) {
    report_unsent(*held_back_, Outcome::throttled, described(blocked_));
    held_back_.reset();
  }
}

void RabbitmqPublisher::report_unsent(const Publication& publication, Outcome outcome,
                                      const std::string& reason) {
  Receipt receipt;
  receipt.ticket = publication.ticket;
  receipt.outcome = outcome;
  receipt.reason = cut_text(reason, kReasonMax);
  queue_.report(std::move(receipt));
}

void RabbitmqPublisher::report(const Flight& flight, Outcome outcome, const std::string& reason,
                               bool unknown, std::uint64_t incident) {
  Receipt receipt;
  receipt.ticket = flight.publication.ticket;
  receipt.outcome = outcome;
  receipt.sent = true;
  receipt.outcome_unknown = unknown;
  receipt.took = clock_.now() - flight.start;
  receipt.incident = incident;
  if (!reason.empty()) receipt.reason = cut_text(described(reason), kReasonMax);
  queue_.report(std::move(receipt));
}

std::string RabbitmqPublisher::described(const std::string& reason) const {
  return fmt::format("{}: {}", endpoint_.label, reason);
}

void add_rabbitmq_publisher(Backends& backends) {
  PublisherBackend backend;
  backend.check = check_rabbitmq_settings;
  backend.open = [](const PublisherSettings& settings, const Clock& clock, ReceiptSink& sink) {
    const auto defects = check_rabbitmq_settings(settings);
    if (!defects.empty()) throw SettingsError(describe(defects));
    return std::unique_ptr<Publisher>(std::make_unique<RabbitmqPublisher>(settings, clock, sink));
  };
  backend.test = test_rabbitmq_broker;
  backend.explain = explain_rabbitmq_receipt;
  backends.publishers["amqp"] = backend;
  backends.publishers["amqps"] = std::move(backend);
}

}  // namespace outbox
