// One relay's connection to the table, with the faults of a database in between.
#pragma once

#include <optional>
#include <vector>

#include "relay/outbox_store.h"
#include "relay/random.h"
#include "tests/sim/model/context.h"

namespace outbox::sim {

class SimStore final : public OutboxStore {
 public:
  SimStore(Context& context, ProcessId process, ProcessClock& clock);

  Turn turn(const TurnRequest& request) override;
  void retire() override;

  // From now on no call reaches the table: the process is gone.
  void cut() { cut_ = true; }

 private:
  Turn answer(const TurnRequest& request);
  bool strikes(Fault fault);
  bool unusable(Time now) const;
  Duration slowness();
  TurnRequest doctored(const TurnRequest& request);
  Turn failed(const char* error) const;

  Context& context_;
  const ProcessId process_;
  ProcessClock& clock_;
  Random random_;
  bool cut_ = false;
  std::vector<Settlement> doctored_;
  std::uint64_t doctored_number_ = 0;
};

}  // namespace outbox::sim
