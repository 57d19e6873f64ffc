#include "relay/app/next_step.h"

#include <fmt/format.h>

#include "relay/app/printable.h"

namespace outbox {
namespace {

// The row that must be decided before this one is sent.
const RowAhead* row_ahead(const Outlook& outlook, const RelayOptions& options) {
  if (options.ordering != Ordering::key) return nullptr;
  if (outlook.dead_ahead && options.dead_blocks_key) return &*outlook.dead_ahead;
  return outlook.open_ahead ? &*outlook.open_ahead : nullptr;
}

std::string behind(const RowAhead& ahead) {
  const std::string id = printable(ahead.id, 500);
  if (ahead.state == MessageState::dead_lettered) {
    return fmt::format("waits for {}, which is a dead letter of its key: redrive or discard that",
                       id);
  }
  return fmt::format("waits for {}, an earlier row of its key, which is {}", id,
                     name_of(ahead.state));
}

std::string leased(const Outlook& outlook) {
  if (!outlook.holder) return "is leased to a relay that is gone: another one takes it over";
  const RelaySeen& holder = *outlook.holder;
  const std::string name = fmt::format("{} (process {})", printable(holder.host), holder.process);
  if (holder.life == RelaySeen::Life::dead) {
    return fmt::format("is leased to {}, which is gone: another one takes it over", name);
  }
  return fmt::format("is leased to {}: is being sent, or about to be", name);
}

std::string when_due(const Outlook& outlook) {
  const std::string due = printable(outlook.due_on);
  const bool sooner = outlook.waits_for_recovery;
  if (due.empty()) return "due: is sent as soon as a relay has room and the circuit is closed";
  if (outlook.asked_to_wait) return fmt::format("not before {}: the application said so", due);
  return fmt::format("due again at {}{}", due, sooner ? ", or when the circuit closes" : "");
}

std::string undecided(const MessageDetail& detail, const RelayOptions& options) {
  const Outlook& outlook = detail.outlook;
  if (detail.summary.leased) return leased(outlook);
  const RowAhead* const ahead = row_ahead(outlook, options);
  std::string text = ahead != nullptr ? behind(*ahead) : when_due(outlook);
  if (outlook.paused) text += "; the outbox is paused by an operator until `outbox-relay resume`";
  if (outlook.isolated) {
    text += "; the circuit is isolated by an operator until `outbox-relay broker close`";
  }
  return text;
}

std::string dead(const MessageDetail& detail, const RelayOptions& options) {
  const bool blocks = options.ordering == Ordering::key && options.dead_blocks_key &&
                      !detail.summary.ordering_key.empty();
  return fmt::format("nothing by itself: redrive or discard it{}",
                     blocks ? "; later rows of its key wait for that" : "");
}

}  // namespace

std::string next_step(const MessageDetail& detail, const RelayOptions& options) {
  switch (detail.summary.state) {
    case MessageState::pending:
    case MessageState::failed:
      return undecided(detail, options);
    case MessageState::processed:
      return "nothing: delivered";
    case MessageState::dead_lettered:
      return dead(detail, options);
    case MessageState::skipped:
      return "nothing: adopt left it out";
    case MessageState::unknown:
      return "nothing: its state is none that the relay knows";
  }
  return {};
}

}  // namespace outbox
