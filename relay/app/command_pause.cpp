#include <fmt/format.h>

#include "relay/app/commands.h"
#include "relay/app/exit_codes.h"
#include "relay/app/printable.h"
#include "relay/app/talk.h"

namespace outbox {

int pause_relays(const Config& config, const Backends& backends, bool paused,
                 const std::string& reason) {
  const auto desk = open_desk(config, backends);
  const auto changed = desk->pause(paused, reason.empty() ? "by command" : reason);
  if (!changed.ok()) return tell_failure(changed);
  if (paused) {
    say(changed.value
            ? "paused: no relay of this outbox leases anything until `outbox-relay resume`"
            : "it was paused already");
  } else {
    say(changed.value ? "resumed: its relays lease again" : "it was not paused");
  }
  return kDone;
}

}  // namespace outbox
