#include "tests/sim/model/sim_publisher.h"

#include <utility>

#include "tests/sim/model/process.h"
#include "tests/sim/model/seeds.h"

namespace outbox::sim {

SimPublisher::SimPublisher(Context& context, ProcessId process, ProcessClock& clock,
                           ReceiptSink& sink)
    : context_(context),
      process_(process),
      clock_(clock),
      sink_(sink),
      random_(mix(context.scenario.seed, "publisher", process)) {}

SimPublisher::~SimPublisher() {
  if (cut_) return;
  report_recalled();
  for (const Publication& publication : queue_) report_unsent(publication, "shutting down");
  queue_.clear();
  lose_connection();
}

void SimPublisher::report_unsent(const Publication& publication, const char* why) {
  Receipt receipt;
  receipt.ticket = publication.ticket;
  receipt.reason = why;
  report(Attempt{process_, row_number(publication.message->row), 0}, receipt);
}

void SimPublisher::recall() {
  if (cut_ || queue_.empty()) return;
  recalled_.insert(recalled_.end(), queue_.begin(), queue_.end());
  queue_.clear();
  const std::uint64_t late = random_.below(random_.chance(0.2) ? 500'000 : 50);
  context_.events.at(clock_.world_now() + std::chrono::microseconds{late},
                     [&context = context_, process = process_] {
                       if (Process* alive = context.find(process))
                         alive->publisher().report_recalled();
                     });
}

void SimPublisher::report_recalled() {
  while (!frozen_ && !recalled_.empty()) {
    const Publication publication = recalled_.front();
    recalled_.pop_front();
    report_unsent(publication, "recalled");
  }
}

std::size_t SimPublisher::submit(std::span<const Publication> publications) {
  if (cut_) return 0;
  std::size_t room =
      context_.scenario.queue_max -
      std::min(context_.scenario.queue_max, queue_.size() + recalled_.size() + travelling_.size());
  if (context_.faults_on && has(context_.scenario.faults, Fault::short_queue) &&
      random_.chance(0.1)) {
    room = std::min<std::size_t>(room, random_.below(3));
  }
  std::size_t taken = 0;
  for (const Publication& publication : publications) {
    if (taken == room) break;
    ++taken;
    const RowNumber number = row_number(publication.message->row);
    context_.facts.on_submitted(process_, publication, number, clock_.world_now());
    context_.trace.event(clock_.world_now(), "publisher", "submitted",
                         {{"process", process_}, {"row", number}, {"ticket", publication.ticket}});
    queue_.push_back(publication);
    if (context_.table.row(number).kind == RowKind::killer) {
      context_.facts.on_killed_by(context_.table.row(number), process_, clock_.world_now());
      killed_ = true;
    }
  }
  if (killed_) {
    cut();
  } else if (taken > 0) {
    context_.events.at(clock_.world_now(), [&context = context_, process = process_] {
      if (Process* alive = context.find(process)) alive->publisher().pump();
    });
  }
  return taken;
}

void SimPublisher::pump() {
  while (!frozen_ && !cut_ && !queue_.empty() &&
         travelling_.size() < context_.scenario.connections) {
    const Publication publication = queue_.front();
    queue_.pop_front();
    begin(publication);
  }
}

// Runs as an event: the world's time is now, whatever the step under way has spent.
void SimPublisher::begin(const Publication& publication) {
  const Time now = context_.events.now();
  const RowNumber number = row_number(publication.message->row);
  if (clock_.local(now) > publication.start_by &&
      context_.scenario.bug != Bug::publisher_ignores_start_by) {
    report_unsent(publication, "its time to start has passed");
    return;
  }
  const Row& row = context_.table.row(number);
  attempt_once(publication, row);
  if (context_.scenario.bug == Bug::publisher_repeats_itself && number % 7 == 3) {
    context_.broker.accept(Attempt{process_, number, context_.broker.next_attempt(number)},
                           fingerprint(*publication.message));
  }
}

void SimPublisher::attempt_once(const Publication& publication, const Row& row) {
  const Time now = context_.events.now();
  const Attempt attempt{process_, row.number, context_.broker.next_attempt(row.number)};
  const Fate fate =
      context_.broker.decide(row, attempt.number, context_.scenario.relay.publish_timeout, now);
  context_.trace.event(now, "publisher", "send",
                       {{"process", process_},
                        {"row", row.number},
                        {"attempt", attempt.number},
                        {"outcome", static_cast<std::uint64_t>(fate.outcome)}},
                       fate.reason);
  context_.facts.on_send(attempt, publication, now);
  std::uint64_t print = fingerprint(*publication.message);
  if (context_.scenario.bug == Bug::publisher_alters_payload && row.number % 7 == 3) ++print;
  if (fate.accepted) {
    context_.events.after(fate.accepted_after, [&broker = context_.broker, attempt, print] {
      broker.accept(attempt, print);
    });
  }
  const Ticket ticket = publication.ticket;
  travelling_.emplace(ticket, Travelling{attempt, fate, now});
  context_.events.after(fate.answered_after,
                        [&context = context_, process = process_, ticket, fate] {
                          Process* alive = context.find(process);
                          if (alive == nullptr) return;
                          Receipt receipt;
                          receipt.ticket = ticket;
                          receipt.outcome = fate.outcome;
                          receipt.reason = fate.reason;
                          receipt.sent = fate.sent;
                          receipt.outcome_unknown = fate.outcome_unknown;
                          receipt.wait = fate.wait;
                          alive->publisher().finish(ticket, std::move(receipt));
                        });
}

void SimPublisher::finish(Ticket ticket, Receipt receipt) {
  if (cut_) return;
  if (frozen_) {
    deferred_.emplace_back(ticket, std::move(receipt));
    return;
  }
  const auto found = travelling_.find(ticket);
  if (found == travelling_.end()) return;  // its connection was lost
  const Attempt attempt = found->second.attempt;
  receipt.took = context_.events.now() - found->second.begun;
  travelling_.erase(found);
  report(attempt, std::move(receipt));
  pump();
}

void SimPublisher::report(const Attempt& attempt, Receipt receipt) {
  context_.trace.event(context_.events.now(), "publisher", "receipt",
                       {{"process", process_},
                        {"row", attempt.row},
                        {"ticket", receipt.ticket},
                        {"outcome", static_cast<std::uint64_t>(receipt.outcome)}},
                       receipt.reason);
  context_.facts.on_receipt(attempt, receipt, context_.events.now());
  sink_.deliver(std::move(receipt));
}

void SimPublisher::thaw() {
  frozen_ = false;
  report_recalled();
  while (!deferred_.empty()) {
    auto [ticket, receipt] = std::move(deferred_.front());
    deferred_.pop_front();
    finish(ticket, std::move(receipt));
  }
  pump();
}

void SimPublisher::cut() {
  cut_ = true;
  queue_.clear();
  recalled_.clear();
  travelling_.clear();
  deferred_.clear();
}

void SimPublisher::lose_connection() {
  if (travelling_.empty()) return;
  ++incidents_;
  while (!travelling_.empty()) {
    const auto first = travelling_.begin();
    Receipt receipt;
    receipt.ticket = first->first;
    receipt.outcome = Outcome::transport;
    receipt.reason = "connection lost";
    receipt.sent = true;
    receipt.outcome_unknown = true;
    receipt.took = context_.events.now() - first->second.begun;
    receipt.incident = incidents_;
    const Attempt attempt = first->second.attempt;
    travelling_.erase(first);
    report(attempt, std::move(receipt));
  }
  pump();
}

}  // namespace outbox::sim
