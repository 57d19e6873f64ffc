#include "storage/sqlite/sqlite_desk.h"

#include <fmt/format.h>

#include <utility>

#include "storage/sqlite/adoption.h"
#include "storage/sqlite/answered.h"
#include "storage/sqlite/desk_backlog.h"
#include "storage/sqlite/desk_messages.h"
#include "storage/sqlite/desk_orders.h"
#include "storage/sqlite/dialect.h"

namespace outbox::sqlite {
namespace {

constexpr auto kPatience = std::chrono::seconds{5};

}  // namespace

SqliteDesk::SqliteDesk(const StoreSettings& settings, std::function<WallTime()> wall)
    : settings_(settings),
      mapping_(mapping_of(settings)),
      path_(path_of(settings.url)),
      clocks_{.boot = &boot_, .wall = std::move(wall), .boot_id = system_clocks(boot_).boot_id} {}

template <class Value, class Ask>
Answer<Value> SqliteDesk::ask(const Ask& question) {
  return answered<Value>(path_, [&](Value& value) {
    Desk desk(path_, mapping_, clocks_, kPatience, Desk::Tables::looked_at);
    question(desk, value);
  });
}

template <class Value, class Work>
Answer<Value> SqliteDesk::change(const Work& work) {
  return answered<Value>(path_, [&](Value& value) {
    Desk desk(path_, mapping_, clocks_, kPatience,
              settings_.create_relay_tables ? Desk::Tables::made : Desk::Tables::needed);
    work(desk, value);
  });
}

Answer<Backlog> SqliteDesk::backlog() {
  return ask<Backlog>([](Desk& desk, Backlog& value) { value = count_backlog(desk); });
}

Answer<std::vector<MessageSummary>> SqliteDesk::messages(const MessageFilter& filter) {
  return ask<std::vector<MessageSummary>>(
      [&](Desk& desk, auto& value) { value = find_messages(desk, filter); });
}

Answer<std::vector<MessageDetail>> SqliteDesk::message(const std::string& id,
                                                       std::uint64_t payload_max) {
  return ask<std::vector<MessageDetail>>(
      [&](Desk& desk, auto& value) { value = show_message(desk, id, payload_max); });
}

Answer<std::vector<AuditRecord>> SqliteDesk::trail(const std::string& id) {
  return ask<std::vector<AuditRecord>>(
      [&](Desk& desk, auto& value) { value = audit_trail(desk, id); });
}

Answer<std::vector<DeadLetter>> SqliteDesk::dead_letters(const DeadLetterFilter& filter) {
  return ask<std::vector<DeadLetter>>(
      [&](Desk& desk, auto& value) { value = list_dead_letters(desk, filter); });
}

Answer<std::uint64_t> SqliteDesk::export_dead_letters(
    const DeadLetterFilter& filter, const std::function<bool(const ExportedLetter&)>& take) {
  return ask<std::uint64_t>([&](Desk& desk, std::uint64_t& taken) {
    sqlite::export_dead_letters(desk, filter, take, taken);
  });
}

Answer<std::uint64_t> SqliteDesk::redrive(const DeadLetterFilter& filter, const std::string& reason,
                                          const Progress& progress) {
  return treat(filter, {Treatment::Kind::redrive, reason}, progress);
}

Answer<std::uint64_t> SqliteDesk::discard(const DeadLetterFilter& filter, const std::string& reason,
                                          const Progress& progress) {
  return treat(filter, {Treatment::Kind::discard, reason}, progress);
}

Answer<std::uint64_t> SqliteDesk::treat(const DeadLetterFilter& filter, const Treatment& treatment,
                                        const Progress& progress) {
  Treated treated;
  auto answer = change<std::uint64_t>([&](Desk& desk, std::uint64_t&) {
    require_no_other(desk.connection, desk.sql.mapping());
    treat_dead_letters(desk, filter, treatment, progress, treated);
  });
  answer.value = treated.done;
  if (answer.ok() && treated.refused > 0) {
    answer.error = fmt::format("{}: {} row{} could not be changed, the first one since: {}", path_,
                               treated.refused, treated.refused == 1 ? "" : "s", treated.refusal);
  }
  return answer;
}

Answer<bool> SqliteDesk::hold_circuit(bool hold, const std::string& reason) {
  return change<bool>(
      [&](Desk& desk, bool& changed) { changed = order_isolation(desk, hold, reason); });
}

Answer<bool> SqliteDesk::pause(bool paused, const std::string& reason) {
  return change<bool>(
      [&](Desk& desk, bool& changed) { changed = order_pause(desk, paused, reason); });
}

Answer<CleanStep> SqliteDesk::clean(const CleanRequest& request) {
  return answered<CleanStep>(path_, [&](CleanStep& step) {
    if (!cleaner_) {
      cleaner_ = std::make_unique<Cleaner>(path_, mapping_, clocks_, settings_.wal_limit);
    }
    step = cleaner_->step(request);
  });
}

}  // namespace outbox::sqlite
