#include "relay/inspection.h"

namespace outbox {

const char* name_of(Severity severity) {
  switch (severity) {
    case Severity::information:
      return "information";
    case Severity::warning:
      return "warning";
    case Severity::error:
      return "error";
  }
  return "error";
}

const char* name_of(FixKind kind) {
  switch (kind) {
    case FixKind::advice:
      return "advice";
    case FixKind::command:
      return "command";
    case FixKind::sql:
      return "sql";
  }
  return "advice";
}

const char* name_of(RelaySeen::Life life) {
  switch (life) {
    case RelaySeen::Life::alive:
      return "alive";
    case RelaySeen::Life::dead:
      return "dead";
    case RelaySeen::Life::unknown:
      return "unknown";
  }
  return "unknown";
}

const char* name_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::confirmed:
      return "confirmed";
    case Outcome::transport:
      return "transport";
    case Outcome::throttled:
      return "throttled";
    case Outcome::misconfigured:
      return "misconfigured";
    case Outcome::refused:
      return "refused";
    case Outcome::conflict:
      return "conflict";
    case Outcome::cancelled:
      return "cancelled";
  }
  return "cancelled";
}

const char* meaning_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::confirmed:
      return "the event is delivered: its row becomes Processed";
    case Outcome::transport:
      return "a failure of the broker: the row is tried again later, and enough of these open the "
             "circuit";
    case Outcome::throttled:
      return "the broker is too busy: the row waits as long as it asks, and enough of these open "
             "the circuit";
    case Outcome::misconfigured:
      return "an operator has to mend it: rows wait as Failed, are not charged, and the "
             "destination "
             "is held";
    case Outcome::refused:
      return "the broker will never take this event: its row becomes a dead letter, permanent";
    case Outcome::conflict:
      return "the broker is working on the same event already: the row is tried again later";
    case Outcome::cancelled:
      return "nothing was sent";
  }
  return "nothing was sent";
}

}  // namespace outbox
