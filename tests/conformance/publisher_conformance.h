// What every publisher has to keep, whatever broker it speaks to. A publisher is admitted by a test
// file that hands check_publisher() a BrokerUnderTest.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "relay/backends.h"
#include "relay/message.h"
#include "relay/publisher.h"

namespace outbox::testing {

// No test waits longer for a condition than this.
inline constexpr std::chrono::seconds kPatience{20};

// Waits until `holds` is true, looking often; false if it never was.
bool eventually(const std::function<bool()>& holds, std::chrono::milliseconds patience = kPatience);

// Keeps receipts, in the order in which they came.
class RecordingSink final : public ReceiptSink {
 public:
  void deliver(Receipt receipt) override;

  // Waits until at least `count` receipts are here; false if they did not come.
  bool wait_for(std::size_t count, std::chrono::milliseconds patience = kPatience);
  std::vector<Receipt> receipts() const;
  std::size_t count() const;
  // The only receipt with this ticket; fails the test if there is none or more than one.
  Receipt only(Ticket ticket) const;
  // Called with each receipt, on the publisher's thread; set before anything is submitted.
  std::function<void(const Receipt&)> on_receipt;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Receipt> receipts_;
};

// What the broker has accepted.
struct Arrival {
  std::string id;
  std::string event_type;
  std::string key;
  std::string payload;
  std::vector<Header> headers;  // the row's own, in any order
};

// A broker and the way to speak to it.
class BrokerUnderTest {
 public:
  virtual ~BrokerUnderTest() = default;
  virtual PublisherSettings settings() = 0;
  virtual std::unique_ptr<Publisher> open(const PublisherSettings& settings, const Clock& clock,
                                          ReceiptSink& sink) = 0;
  // Whether arrivals can be seen at all.
  virtual bool shows_arrivals() const { return true; }
  virtual std::vector<Arrival> arrivals() = 0;
  // A payload as arrivals() shows it, if the broker's format promises less than the same bytes.
  virtual std::string as_shown(const std::string& payload) const { return payload; }
  // The broker takes nothing more, without saying so, until resume(). False if it has no such
  // state.
  virtual bool stall() = 0;
  virtual void resume() = 0;
  // The broker is gone for good, as seen by a client. False if it can't go.
  virtual bool disconnect() = 0;
  // Turns the message into one that this broker can't be given unchanged. False if there is none.
  virtual bool make_unsendable(Message& message) = 0;
};

using BrokerFactory = std::function<std::unique_ptr<BrokerUnderTest>()>;

// A message with everything that a row can have.
Message make_message(const std::string& id);

// A publication of it that may start for long.
Publication publication_of(const Message& message, Ticket ticket);

// Runs the suite as subcases of the calling test case.
void check_publisher(const BrokerFactory& make_broker);

}  // namespace outbox::testing
