// The two clocks of a store: boot time for leases, the wall clock for due times.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "relay/clock.h"
#include "storage/mapping/times.h"

namespace outbox::sqlite {

// `boot` decides leases; all relays of one machine share its axis, and another `boot_id` means
// that the machine was started anew. `wall` decides only when a row is due.
struct Clocks {
  const Clock* boot = nullptr;
  std::function<WallTime()> wall;
  std::string boot_id;

  // The boot id as a number, to be kept beside times on the boot axis.
  std::int64_t boot_number() const;
};

// The machine's clocks. `boot` outlives the result.
Clocks system_clocks(const Clock& boot);

// CLOCK_BOOTTIME itself.
class BootClock final : public Clock {
 public:
  Time now() const override;
};

}  // namespace outbox::sqlite
