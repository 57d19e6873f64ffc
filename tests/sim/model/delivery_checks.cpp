#include "tests/sim/model/delivery_checks.h"

#include <algorithm>

namespace outbox::sim {
namespace {

std::string row_text(RowNumber row) { return "row " + std::to_string(row); }

}  // namespace

void DeliveryChecks::on_inserted(const Row& row) {
  Story& story = stories_[row.number];
  story.key = row.key;
  story.print = fingerprint(row);
  if (row.key) keys_[*row.key].push_back(row.number);
}

void DeliveryChecks::on_redriven(const Row& row) {
  Story& story = stories_[row.number];
  story.generation = row.generation;
  for (Sent& sent : story.sent) sent.explained = true;
}

void DeliveryChecks::on_ended(ProcessId process, Ending how, Time) {
  if (how != Ending::clean) died_.insert(process);
}

void DeliveryChecks::on_leased(const Row& row, Time) {
  Story& story = stories_[row.number];
  story.holder = row.holder;
  story.lease = row.lease;
}

void DeliveryChecks::on_lease_ended(const Row& row, ProcessId holder, LeaseId, LeaseEnd how, Time) {
  Story& story = stories_[row.number];
  story.holder = 0;
  story.lease = 0;
  if (how != LeaseEnd::term_over && how != LeaseEnd::wiped) return;
  for (Sent& sent : story.sent) sent.explained |= sent.process == holder;
}

void DeliveryChecks::on_settled(const Row& row, ProcessId process, const Settlement&, Status,
                                Time now) {
  Story& story = stories_[row.number];
  story.ever_dead |= row.status == Status::dead;
  if (row.status != Status::processed || story.accepted) return;
  court_.accuse("P1 no loss",
                row_text(row.number) + ": process " + std::to_string(process) +
                    " settled it as delivered, and the broker never accepted it",
                now);
}

void DeliveryChecks::on_buried_by_store(const Row& row, Time) {
  stories_[row.number].ever_dead = true;
}

void DeliveryChecks::on_submitted(ProcessId process, const Publication& publication, RowNumber row,
                                  Time now) {
  const Story& story = stories_[row];
  if (publication.message->history.outcome_unknown && !publication.redelivered) {
    court_.accuse("P5 identity", row_text(row) + ": a possible duplicate is not marked as one",
                  now);
  }
  if (scenario_.relay.ordering != Ordering::key || !story.key) return;
  auto& under_way = under_way_[{process, *story.key}];
  for (const RowNumber other : under_way) {
    if (other == row || stories_[other].holder != process) continue;
    court_.accuse("P3 order",
                  row_text(row) + ": submitted while row " + std::to_string(other) +
                      " of its key is under way",
                  now);
  }
  under_way.insert(row);
}

void DeliveryChecks::on_send(const Attempt& attempt, const Publication&, Time) {
  Story& story = stories_[attempt.row];
  const bool unheld = story.holder != attempt.process;
  story.sent.push_back({attempt.process, attempt.number, story.generation, false, unheld, unheld});
}

void DeliveryChecks::on_receipt(const Attempt& attempt, const Receipt& receipt, Time) {
  Story& story = stories_[attempt.row];
  if (story.key) under_way_[{attempt.process, *story.key}].erase(attempt.row);
  if (!receipt.outcome_unknown) return;
  for (Sent& sent : story.sent) sent.explained |= sent.number == attempt.number;
}

void DeliveryChecks::on_accepted(const Attempt& attempt, std::uint64_t print, Time now) {
  const auto found = stories_.find(attempt.row);
  if (found == stories_.end()) {
    court_.accuse("P2 no phantom", row_text(attempt.row) + ": accepted and not in the table", now);
    return;
  }
  Story& story = found->second;
  if (std::none_of(story.sent.begin(), story.sent.end(),
                   [&](const Sent& sent) { return sent.number == attempt.number; })) {
    court_.accuse("P4 duplicates", row_text(attempt.row) + ": accepted without having been sent",
                  now);
  }
  if (print != story.print) {
    court_.accuse("P5 identity", row_text(attempt.row) + ": its content changed on the way", now);
  }
  if (!story.accepted) {
    check_order(attempt.row, story, now);
    check_passed(attempt.row, story, now);
  } else {
    check_repeat(attempt.row, story, attempt, now);
  }
  story.accepted = true;
  for (Sent& sent : story.sent) sent.accepted |= sent.number == attempt.number;
}

// All rows before it in its key were accepted, or die where a dead one may be passed: its death may
// be known to the relay and not be written yet.
void DeliveryChecks::check_order(RowNumber row, const Story& story, Time now) {
  if (scenario_.relay.ordering != Ordering::key || !story.key) return;
  for (const RowNumber before : keys_[*story.key]) {
    if (before >= row) return;
    Story& earlier = stories_[before];
    if (earlier.accepted) continue;
    if (!scenario_.relay.dead_blocks_key) {
      earlier.passed = true;
      continue;
    }
    court_.accuse(
        "P3 order",
        row_text(row) + ": accepted before row " + std::to_string(before) + " of the same key",
        now);
    return;
  }
}

void DeliveryChecks::check_passed(RowNumber row, const Story& story, Time now) {
  if (!story.passed || story.ever_dead) return;
  court_.accuse("P3 order", row_text(row) + ": accepted after a later row of its key", now);
}

// Of two attempts that the broker accepted, the one sent first needs a cause for being repeated.
void DeliveryChecks::check_repeat(RowNumber row, Story& story, const Attempt& attempt, Time now) {
  std::uint64_t latest = attempt.number;
  for (const Sent& sent : story.sent) {
    if (sent.accepted) latest = std::max(latest, sent.number);
  }
  for (const Sent& sent : story.sent) {
    if (sent.number == latest && sent.unheld) return;
  }
  for (const Sent& sent : story.sent) {
    const bool accepted = sent.accepted || sent.number == attempt.number;
    if (!accepted || sent.number == latest) continue;
    if (sent.explained || died_.contains(sent.process)) continue;
    court_.accuse("P4 duplicates",
                  row_text(row) + ": attempt " + std::to_string(sent.number) + " of process " +
                      std::to_string(sent.process) + " was accepted, and process " +
                      std::to_string(attempt.process) + " sent it again without a cause",
                  now);
  }
}

}  // namespace outbox::sim
