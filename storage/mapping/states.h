// How the relay calls the states of a row.
#pragma once

#include <string>

#include "relay/outbox_desk.h"

namespace outbox {

// The state names of outbox_relay_rows, whatever the outbox calls its own.
namespace state {
constexpr const char* kPending = "Pending";
constexpr const char* kFailed = "Failed";
constexpr const char* kProcessed = "Processed";
constexpr const char* kDeadLettered = "DeadLettered";
// Only beside: older than what the relay was told to begin with.
constexpr const char* kSkipped = "Skipped";
}  // namespace state

// A state by its name in outbox_relay_rows.
MessageState state_named(const std::string& name);
// The other way; empty for an unknown one.
std::string name_in_database(MessageState state);

}  // namespace outbox
