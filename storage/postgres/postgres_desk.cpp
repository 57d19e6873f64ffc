#include "storage/postgres/postgres_desk.h"

#include <fmt/format.h>

#include <utility>

#include "storage/postgres/adoption.h"
#include "storage/postgres/desk_backlog.h"
#include "storage/postgres/desk_messages.h"
#include "storage/postgres/desk_orders.h"

namespace outbox::postgres {

PostgresDesk::PostgresDesk(const StoreSettings& settings, std::string now, std::mutex* turnstile)
    : settings_(settings), now_(std::move(now)), turnstile_(turnstile) {
  mapping_of(settings);
  location_of(settings);
}

std::unique_lock<std::mutex> PostgresDesk::wait_turn() const {
  return turnstile_ == nullptr ? std::unique_lock<std::mutex>() : std::unique_lock(*turnstile_);
}

template <class Value, class Work>
Answer<Value> PostgresDesk::work(const Work& work) {
  const auto turn = wait_turn();
  return answered<Value>([&](Value& value) {
    Desk desk(settings_, now_);
    work(desk, value);
  });
}

Answer<Backlog> PostgresDesk::backlog() {
  return work<Backlog>([](Desk& desk, Backlog& value) { value = count_backlog(desk); });
}

Answer<std::vector<MessageSummary>> PostgresDesk::messages(const MessageFilter& filter) {
  return work<std::vector<MessageSummary>>(
      [&](Desk& desk, auto& value) { value = find_messages(desk, filter); });
}

Answer<std::vector<MessageDetail>> PostgresDesk::message(const std::string& id,
                                                         std::uint64_t payload_max) {
  return work<std::vector<MessageDetail>>(
      [&](Desk& desk, auto& value) { value = show_message(desk, id, payload_max); });
}

Answer<std::vector<AuditRecord>> PostgresDesk::trail(const std::string& id) {
  return work<std::vector<AuditRecord>>(
      [&](Desk& desk, auto& value) { value = audit_trail(desk, id); });
}

Answer<std::vector<DeadLetter>> PostgresDesk::dead_letters(const DeadLetterFilter& filter) {
  return work<std::vector<DeadLetter>>(
      [&](Desk& desk, auto& value) { value = list_dead_letters(desk, filter); });
}

Answer<std::uint64_t> PostgresDesk::export_dead_letters(
    const DeadLetterFilter& filter, const std::function<bool(const ExportedLetter&)>& take) {
  return work<std::uint64_t>([&](Desk& desk, std::uint64_t& taken) {
    postgres::export_dead_letters(desk, filter, take, taken);
  });
}

Answer<std::uint64_t> PostgresDesk::redrive(const DeadLetterFilter& filter,
                                            const std::string& reason, const Progress& progress) {
  return treat(filter, {Treatment::Kind::redrive, reason}, progress);
}

Answer<std::uint64_t> PostgresDesk::discard(const DeadLetterFilter& filter,
                                            const std::string& reason, const Progress& progress) {
  return treat(filter, {Treatment::Kind::discard, reason}, progress);
}

Answer<std::uint64_t> PostgresDesk::treat(const DeadLetterFilter& filter,
                                          const Treatment& treatment, const Progress& progress) {
  Treated treated;
  auto answer = work<std::uint64_t>([&](Desk& desk, std::uint64_t&) {
    require_no_other(desk.connection, desk.sql);
    treat_dead_letters(desk, filter, treatment, progress, treated);
  });
  answer.value = treated.done;
  if (answer.ok() && treated.refused > 0) {
    answer.error = fmt::format("{} row{} could not be changed, the first one since: {}",
                               treated.refused, treated.refused == 1 ? "" : "s", treated.refusal);
  }
  return answer;
}

Answer<bool> PostgresDesk::hold_circuit(bool hold, const std::string& reason) {
  return work<bool>(
      [&](Desk& desk, bool& changed) { changed = order_isolation(desk, hold, reason); });
}

Answer<bool> PostgresDesk::pause(bool paused, const std::string& reason) {
  return work<bool>(
      [&](Desk& desk, bool& changed) { changed = order_pause(desk, paused, reason); });
}

Answer<CleanStep> PostgresDesk::clean(const CleanRequest& request) {
  const auto turn = wait_turn();
  return answered<CleanStep>([&](CleanStep& step) {
    if (!cleaner_) cleaner_ = std::make_unique<Cleaner>(settings_, now_);
    step = cleaner_->step(request);
  });
}

}  // namespace outbox::postgres
