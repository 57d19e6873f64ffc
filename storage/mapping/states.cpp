#include "storage/mapping/states.h"

namespace outbox {

MessageState state_named(const std::string& name) {
  if (name == state::kPending) return MessageState::pending;
  if (name == state::kFailed) return MessageState::failed;
  if (name == state::kProcessed) return MessageState::processed;
  if (name == state::kDeadLettered) return MessageState::dead_lettered;
  if (name == state::kSkipped) return MessageState::skipped;
  return MessageState::unknown;
}

}  // namespace outbox
