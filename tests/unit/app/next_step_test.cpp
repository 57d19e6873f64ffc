// What an operator is told happens next to a message.
#include "relay/app/next_step.h"

#include <doctest/doctest.h>

namespace outbox {
namespace {

MessageDetail message_in(MessageState state) {
  MessageDetail detail;
  detail.summary.state = state;
  detail.summary.ordering_key = "k";
  return detail;
}

bool says(const MessageDetail& detail, const RelayOptions& options, const std::string& words) {
  return next_step(detail, options).find(words) != std::string::npos;
}

TEST_CASE("a row that waits is told until when, and what may make it sooner") {
  MessageDetail detail = message_in(MessageState::failed);
  CHECK(says(detail, {}, "due: "));
  detail.outlook.due_on = "2026-11-30T18:42:00.123Z";
  CHECK(next_step(detail, {}) == "due again at 2026-11-30T18:42:00.123Z");
  detail.outlook.waits_for_recovery = true;
  CHECK(says(detail, {}, "when the circuit closes"));
  detail.outlook.asked_to_wait = true;
  CHECK(says(detail, {}, "not before 2026-11-30T18:42:00.123Z: the application"));
  detail.outlook.paused = true;
  CHECK(says(detail, {}, "`outbox-relay resume`"));
}

TEST_CASE("a row behind another one of its key names that, where keys are ordered") {
  MessageDetail detail = message_in(MessageState::pending);
  detail.outlook.open_ahead = RowAhead{"k1", MessageState::failed};
  RelayOptions options;
  CHECK(says(detail, options, "due: "));
  options.ordering = Ordering::key;
  CHECK(says(detail, options, "waits for k1, an earlier row of its key, which is failed"));
  detail.outlook.dead_ahead = RowAhead{"k0", MessageState::dead_lettered};
  CHECK(says(detail, options, "waits for k0, which is a dead letter"));
  options.dead_blocks_key = false;
  CHECK(says(detail, options, "waits for k1"));
}

TEST_CASE("a leased row names who has it, and whether that is gone") {
  MessageDetail detail = message_in(MessageState::pending);
  detail.summary.leased = true;
  CHECK(says(detail, {}, "a relay that is gone"));
  detail.outlook.holder =
      RelaySeen{.host = "pod-1", .process = 7, .leases = 1, .life = RelaySeen::Life::alive};
  CHECK(says(detail, {}, "is leased to pod-1 (process 7): is being sent"));
  detail.outlook.holder->life = RelaySeen::Life::dead;
  CHECK(says(detail, {}, "which is gone"));
}

TEST_CASE("with a decided row nothing happens, and what a dead one holds back is told") {
  CHECK(next_step(message_in(MessageState::processed), {}) == "nothing: delivered");
  CHECK(says(message_in(MessageState::skipped), {}, "adopt"));
  CHECK(says(message_in(MessageState::unknown), {}, "none that the relay knows"));
  const MessageDetail dead = message_in(MessageState::dead_lettered);
  CHECK(next_step(dead, {}) == "nothing by itself: redrive or discard it");
  RelayOptions options;
  options.ordering = Ordering::key;
  CHECK(says(dead, options, "later rows of its key wait"));
}

}  // namespace
}  // namespace outbox
