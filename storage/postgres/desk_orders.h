// Orders to all relays of an outbox, which they find in outbox_relay_brokers.
#pragma once

#include <string>

#include "storage/postgres/desk.h"

namespace outbox::postgres {

// See OutboxDesk::hold_circuit() and OutboxDesk::pause(). Both return whether they changed
// anything: what stands already is not recorded again.
bool order_isolation(Desk& desk, bool isolated, const std::string& reason);
bool order_pause(Desk& desk, bool paused, const std::string& reason);

}  // namespace outbox::postgres
