// A publisher of the simulated world: a queue, a number of connections, and the broker behind them.
#pragma once

#include <cstdint>
#include <deque>
#include <map>

#include "relay/publisher.h"
#include "relay/random.h"
#include "tests/sim/model/context.h"

namespace outbox::sim {

class SimPublisher final : public Publisher {
 public:
  SimPublisher(Context& context, ProcessId process, ProcessClock& clock, ReceiptSink& sink);
  ~SimPublisher() override;

  std::size_t submit(std::span<const Publication> publications) override;

  void recall() override;

  // The process is frozen or goes on: nothing is sent and nothing reported in between.
  void freeze() { frozen_ = true; }
  void thaw();
  // From now on nothing leaves this process; what travels goes on.
  void cut();
  // Everything that travels fails with one incident.
  void lose_connection();
  bool killed() const { return killed_; }

 private:
  struct Travelling {
    Attempt attempt;
    Fate fate;
    Time begun;
  };

  void pump();
  void begin(const Publication& publication);
  void attempt_once(const Publication& publication, const Row& row);
  void report_unsent(const Publication& publication, const char* why);
  void report_recalled();
  void finish(Ticket ticket, Receipt receipt);
  void report(const Attempt& attempt, Receipt receipt);

  Context& context_;
  const ProcessId process_;
  ProcessClock& clock_;
  ReceiptSink& sink_;
  Random random_;
  std::deque<Publication> queue_;
  std::deque<Publication> recalled_;  // their receipts are due
  std::map<Ticket, Travelling> travelling_;
  std::deque<std::pair<Ticket, Receipt>> deferred_;  // reported when the process goes on
  std::uint64_t incidents_ = 0;
  bool frozen_ = false;
  bool cut_ = false;
  bool killed_ = false;
};

}  // namespace outbox::sim
