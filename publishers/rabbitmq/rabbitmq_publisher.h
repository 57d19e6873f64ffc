// Publishes events to RabbitMQ over AMQP 0-9-1, with publisher confirms.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "publishers/rabbitmq/amqp_link.h"
#include "publishers/rabbitmq/amqp_message.h"
#include "publishers/rabbitmq/endpoint.h"
#include "publishers/rabbitmq/flights.h"
#include "publishers/rabbitmq/suspects.h"
#include "publishers/rabbitmq/write_guard.h"
#include "publishers/wire/publication_queue.h"
#include "publishers/wire/wake_up.h"
#include "relay/backends.h"
#include "relay/publisher.h"

namespace outbox {

// submit() only queues; one thread owns the connection and has up to 128 messages in flight on it.
// A message is confirmed when the broker has acked it and did not send it back as unroutable; with
// an exchange for those, when that has taken it. An attempt ends, with its receipt, by the publish
// time-out. The destructor cancels what is queued and waits for what travels. The clock and the
// sink outlive the publisher.
class RabbitmqPublisher final : public Publisher {
 public:
  // The settings have passed the check.
  RabbitmqPublisher(const PublisherSettings& settings, const Clock& clock, ReceiptSink& sink);
  ~RabbitmqPublisher() override;
  RabbitmqPublisher(const RabbitmqPublisher&) = delete;
  RabbitmqPublisher& operator=(const RabbitmqPublisher&) = delete;

  std::size_t submit(std::span<const Publication> publications) override;
  void recall() override;

 private:
  void work();
  bool take_next();
  void start_all();
  void start(Flight flight, const AmqpMessage& message);
  void put(Flight flight, const AmqpMessage& message);
  void divert(Flight flight);
  void fail_waiting(const LinkError& error);
  bool may_start(const Flight& flight) const;
  bool connect(Time deadline, LinkError& error);
  void wait();
  void hear();
  void on(const amqp::Confirm& confirm);
  void on(const amqp::Return& back);
  void on(const amqp::Blocked& blocked);
  void on(const amqp::Closed& closed);
  void expire();
  void give_up_silent_link(Time since);
  void turn_away();
  void break_off(const std::string& reason);
  struct Loss {
    std::string reason;
    Outcome outcome = Outcome::transport;
    bool over_a_message = false;
  };
  void lose(const Loss& loss);
  void lose_broken();
  void report_unsent(const Publication& publication, Outcome outcome, const std::string& reason);
  void report(const Flight& flight, Outcome outcome, const std::string& reason, bool unknown,
              std::uint64_t incident);
  std::string described(const std::string& reason) const;

  const PublisherSettings settings_;
  const AmqpEndpoint endpoint_;
  const AmqpMessageBuilder builder_;
  const Clock& clock_;
  WriteGuard guard_;
  WakeUp wake_;
  PublicationQueue queue_;

  std::atomic<bool> recall_ = false;  // what is held back is to be given back

  // The rest belongs to the thread.
  std::unique_ptr<AmqpLink> link_;  // null: not connected
  Flights flights_;
  Time last_confirm_{};
  std::string blocked_;  // why the broker takes nothing now; empty if it does
  Time blocked_since_{};
  std::optional<Publication> held_back_;  // taken from the queue, and not yet to be started
  Suspects suspects_;                     // to be published alone
  bool alone_ = false;                    // what is in flight is one of these
  std::string broken_;  // why the connection is of no more use, while it is read out
  std::uint64_t incident_ = 0;

  std::thread thread_;  // last: it uses everything above
};

// Registers the schemes `amqp` and `amqps`.
void add_rabbitmq_publisher(Backends& backends);

}  // namespace outbox
