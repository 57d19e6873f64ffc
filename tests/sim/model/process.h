// One life of one relay: what a process of the program would be.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "relay/bell.h"
#include "relay/receipt_queue.h"
#include "relay/relay.h"
#include "tests/sim/model/context.h"
#include "tests/sim/model/sim_publisher.h"
#include "tests/sim/model/sim_store.h"

namespace outbox::sim {

class Process final : public Bell, public RelayObserver {
 public:
  Process(Context& context, ProcessId id);
  ~Process() override;

  ProcessId id() const { return id_; }
  SimPublisher& publisher() { return *publisher_; }
  Relay& relay() { return *relay_; }
  // Still in a call to the database that has not come back.
  bool busy() const { return free_at_ > context_.events.now(); }
  bool frozen() const { return frozen_; }
  bool stopping() const { return stop_at_.has_value(); }
  // It has ended by itself, or must be ended now: the owner destroys it.
  std::optional<Ending> ended() const { return ended_; }
  void hint() override;

  void stop();
  void freeze();
  void thaw();
  // The process vanishes; what it had submitted and not sent goes with it.
  void crash();

 private:
  void ring() override;
  void wake_at(Time when);
  void run();
  void step();
  void retune();
  void mind_the_stop();

  void on_circuit(const CircuitChange& change) override;
  void on_short_circuit(const ShortCircuit& report) override;
  void on_delivery(const Delivery& delivery) override;
  void on_burial(const Burial& burial) override;
  void on_turn(const TurnReport& report) override;

  Context& context_;
  const ProcessId id_;
  ProcessClock clock_;
  ReceiptQueue receipts_;
  SimStore store_;
  std::unique_ptr<SimPublisher> publisher_;
  std::unique_ptr<Relay> relay_;
  Random random_;
  Random retunes_;

  std::uint64_t plan_ = 0;  // the only planned wake-up that counts
  Time planned_{};
  bool has_plan_ = false;
  bool in_step_ = false;
  bool rung_ = false;
  bool hinted_ = false;
  bool frozen_ = false;
  Time free_at_{};
  std::optional<Time> stop_at_;
  std::optional<Ending> ended_;
};

}  // namespace outbox::sim
