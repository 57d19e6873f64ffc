#include "relay/app/commands.h"
#include "relay/app/exit_codes.h"
#include "relay/app/printable.h"
#include "relay/app/talk.h"

namespace outbox {

int hold_circuit(const Config& config, const Backends& backends, bool hold,
                 const std::string& reason) {
  const auto desk = open_desk(config, backends);
  const auto changed = desk->hold_circuit(hold, reason.empty() ? "by command" : reason);
  if (!changed.ok()) return tell_failure(changed);
  if (hold) {
    say(changed.value ? "the circuit is isolated: its relays publish nothing until "
                        "`outbox-relay broker close`"
                      : "it was isolated already");
  } else {
    say(changed.value ? "the circuit is let go: its relays publish again" : "it was not isolated");
  }
  return kDone;
}

}  // namespace outbox
