#include "relay/message.h"
#include "relay/observer.h"
#include "relay/outbox_desk.h"

namespace outbox {

const char* name_of(FailureKind kind) {
  switch (kind) {
    case FailureKind::none:
      return "none";
    case FailureKind::transport:
      return "transport";
    case FailureKind::throttled:
      return "throttled";
    case FailureKind::misconfigured:
      return "misconfigured";
    case FailureKind::refused:
      return "refused";
    case FailureKind::conflict:
      return "conflict";
    case FailureKind::short_circuited:
      return "short_circuited";
    case FailureKind::held:
      return "held";
  }
  return "none";
}

const char* name_of(MessageState state) {
  switch (state) {
    case MessageState::pending:
      return "pending";
    case MessageState::failed:
      return "failed";
    case MessageState::processed:
      return "processed";
    case MessageState::dead_lettered:
      return "dead_lettered";
    case MessageState::skipped:
      return "skipped";
    case MessageState::unknown:
      return "unknown";
  }
  return "unknown";
}

const char* name_of(DeadReason reason) {
  switch (reason) {
    case DeadReason::attempts_exhausted:
      return "attempts_exhausted";
    case DeadReason::permanent:
      return "permanent";
    case DeadReason::oversized:
      return "oversized";
    case DeadReason::invalid_row:
      return "invalid_row";
    case DeadReason::misconfigured:
      return "misconfigured";
    case DeadReason::crashed:
      return "crashed";
  }
  return "permanent";
}

const char* name_of(CircuitState state) {
  switch (state) {
    case CircuitState::closed:
      return "closed";
    case CircuitState::open:
      return "open";
    case CircuitState::half_open:
      return "half_open";
    case CircuitState::isolated:
      return "isolated";
  }
  return "closed";
}

}  // namespace outbox
