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

std::string name_in_database(MessageState state) {
  switch (state) {
    case MessageState::pending:
      return state::kPending;
    case MessageState::failed:
      return state::kFailed;
    case MessageState::processed:
      return state::kProcessed;
    case MessageState::dead_lettered:
      return state::kDeadLettered;
    case MessageState::skipped:
      return state::kSkipped;
    case MessageState::unknown:
      return {};
  }
  return {};
}

}  // namespace outbox
