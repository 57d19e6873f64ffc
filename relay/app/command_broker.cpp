#include <fmt/format.h>

#include <cstdio>

#include "relay/app/commands.h"
#include "relay/app/exit_codes.h"
#include "relay/app/printable.h"

namespace outbox {

int hold_circuit(const Config& config, const Backends& backends, bool hold,
                 const std::string& reason) {
  const auto& settings = config.settings.store;
  const auto desk = backends.stores.at(scheme_of(settings.url)).open_desk(settings);
  const auto held = desk->hold_circuit(hold, reason.empty() ? "by command" : reason);
  const std::string text =
      !held.ok()    ? printable_sentence(held.error)
      : !held.value ? (hold ? "it was isolated already" : "it was not isolated")
      : hold
          ? "the circuit is isolated: its relays publish nothing until `outbox-relay broker close`"
          : "the circuit is let go: its relays publish again";
  std::fputs(("outbox-relay: " + text + "\n").c_str(), stderr);
  return held.ok() ? kDone : failure_code(held);
}

}  // namespace outbox
