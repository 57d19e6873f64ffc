// What happens next to a message, in one line for people.
#pragma once

#include <string>

#include "relay/outbox_desk.h"
#include "relay/relay.h"

namespace outbox {

// As far as the database and the settings tell: of the circuit only a running relay knows. Fit to
// be shown.
std::string next_step(const MessageDetail& detail, const RelayOptions& options);

}  // namespace outbox
