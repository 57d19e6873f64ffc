#include "relay/app/command_line_desk.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "relay/app/command_options.h"
#include "relay/app/printable.h"
#include "relay/app/units.h"

namespace outbox {
namespace {

constexpr int kRowsMax = 1'000'000;
constexpr Needs kNeedsStore = {.store = true};

void add_limit(CLI::App& command, std::size_t& limit) {
  command.add_option("--limit", limit, fmt::format("at most so many (default: {})", limit))
      ->type_name("N")
      ->check(CLI::Range(1, kRowsMax));
}

void add_ids(CLI::App& command, std::vector<std::string>& ids, std::vector<std::string>& more) {
  command.add_option("ID", ids, "only these ids");
  command.add_option("--id", more, "only this id; may be repeated")
      ->type_name("ID")
      ->allow_extra_args(false);
  command.parse_complete_callback(
      [&ids, &more] { ids.insert(ids.end(), more.begin(), more.end()); });
}

std::vector<std::string> reasons() {
  std::vector<std::string> names;
  for (const auto reason :
       {DeadReason::attempts_exhausted, DeadReason::permanent, DeadReason::oversized,
        DeadReason::invalid_row, DeadReason::misconfigured, DeadReason::crashed}) {
    names.emplace_back(name_of(reason));
  }
  return names;
}

// The reason of an order is free text; one that names a reason of death was meant to choose.
std::string order_reason_defect(const std::string& text) {
  const auto names = reasons();
  if (std::ranges::find(names, text) == names.end()) return {};
  return fmt::format(
      "--reason is why you give the order; to choose dead letters that died so: "
      "--dead-reason {}",
      text);
}

}  // namespace

void DeskCommands::add_to(CLI::App& app, const CommandRegistry& registry) {
  add_messages(app, registry);
  add_dead_letters(app, registry);
  add_pause(app, registry);
}

void DeskCommands::add_messages(CLI::App& app, const CommandRegistry& registry) {
  auto* group = app.add_subcommand("messages", "Find messages, and see all about one");
  group->require_subcommand(1);
  add_find(*group, registry);
  add_show(*group, registry, "Show a message: columns, state, attempts, audit", show_message);
}

void DeskCommands::add_show(CLI::App& group, const CommandRegistry& registry, const char* help,
                            Show show) {
  auto* command = registry.add(group, "show", help);
  command->add_option("ID", messages_.id, "its id")->required();
  command->add_flag("--payload", messages_.payload, "and its payload, as text or in hexadecimal");
  add_output(*command, messages_.output, Lines::yes);
  registry.on_chosen(command, kNeedsStore, [this, show](const Config& config) {
    return show(config, backends_, messages_);
  });
}

void DeskCommands::add_find(CLI::App& group, const CommandRegistry& registry) {
  const std::vector<std::pair<std::string, MessageState>> states = {
      {"pending", MessageState::pending},     {"failed", MessageState::failed},
      {"processed", MessageState::processed}, {"dead-lettered", MessageState::dead_lettered},
      {"skipped", MessageState::skipped},     {"unknown", MessageState::unknown}};
  auto* find = registry.add(group, "find", "List messages, the newest first");
  MessageFilter& filter = messages_.filter;
  add_ids(*find, filter.ids, message_ids_);
  find->add_option("--event-type", filter.event_type, "only this event type")->type_name("TYPE");
  find->add_option("--key", filter.ordering_key, "only this ordering key")->type_name("KEY");
  find->add_option("--state", filter.state,
                   "only pending, failed, processed, dead-lettered, skipped or unknown")
      ->type_name("STATE")
      ->transform(one_of(states));
  find->add_flag("--leased", filter.leased, "only those that a relay holds");
  find->add_option("--since", filter.since, "occurred at this time or later; or so long ago: 2h")
      ->type_name("TIME")
      ->transform(as_time);
  find->add_option("--until", filter.until, "occurred before this time; or so long ago")
      ->type_name("TIME")
      ->transform(as_time);
  find->add_flag("--oldest-first", filter.oldest_first, "in the order of the table");
  add_limit(*find, filter.limit);
  add_output(*find, messages_.output, Lines::yes);
  registry.on_chosen(find, kNeedsStore, [this](const Config& config) {
    return find_messages(config, backends_, messages_);
  });
}

void DeskCommands::add_dead_letters(CLI::App& app, const CommandRegistry& registry) {
  auto* group = app.add_subcommand("dead-letters", "See, redrive, export and discard dead letters");
  group->require_subcommand(1);
  auto* list = registry.add(*group, "list", "List dead letters");
  add_letter_filter(*list);
  add_output(*list, letters_.output, Lines::yes);
  add_dead_reason(*list, "--reason,--dead-reason");
  registry.on_chosen(list, kNeedsStore, [this](const Config& config) {
    return list_dead_letters(config, backends_, letters_);
  });

  add_show(*group, registry, "Show a dead letter: columns, attempts, audit", show_dead_letter);
  add_treatment(*group, registry, "redrive", "Give dead letters another life",
                redrive_dead_letters);
  add_treatment(*group, registry, "discard", "Delete dead letters for good", discard_dead_letters);
  group->get_subcommand("discard")->add_flag("--all", letters_.all,
                                             "without naming ids, type or reason");

  auto* save = registry.add(*group, "export", "Write dead letters with their payloads, JSON lines");
  add_letter_filter(*save);
  add_dead_reason(*save, "--dead-reason");
  save->add_option("--file", letters_.file, "where to, instead of stdout; must not exist yet")
      ->type_name("FILE");
  registry.on_chosen(save, kNeedsStore, [this](const Config& config) {
    return export_dead_letters(config, backends_, letters_);
  });
}

void DeskCommands::add_treatment(CLI::App& group, const CommandRegistry& registry, const char* name,
                                 const char* help, Treat treat) {
  auto* command = registry.add(group, name, help);
  add_letter_filter(*command);
  add_output(*command, letters_.output, Lines::yes);
  add_dead_reason(*command, "--dead-reason");
  add_reason(*command, letters_.reason)->check(order_reason_defect);
  command->add_flag("--dry-run", letters_.dry_run, "only show which ones");
  command->add_flag("--yes", letters_.yes, "don't ask; needed without a terminal");
  registry.on_chosen(command, kNeedsStore, [this, treat](const Config& config) {
    return treat(config, backends_, letters_);
  });
}

void DeskCommands::add_dead_reason(CLI::App& command, const char* names) {
  command.add_option(names, letters_.filter.reason, "only this reason of death")
      ->type_name("REASON")
      ->check(CLI::IsMember(reasons()));
}

void DeskCommands::add_letter_filter(CLI::App& command) {
  add_ids(command, letters_.filter.ids, letter_ids_);
  command.add_option("--event-type", letters_.filter.event_type, "only this event type")
      ->type_name("TYPE");
  add_limit(command, letters_.filter.limit);
}

void DeskCommands::add_pause(CLI::App& app, const CommandRegistry& registry) {
  const auto add = [&](const char* name, const char* help, bool paused) {
    auto* command = registry.add(app, name, help);
    add_reason(*command, pause_reason_);
    registry.on_chosen(command, kNeedsStore, [this, paused](const Config& config) {
      return pause_relays(config, backends_, paused, pause_reason_);
    });
  };
  add("pause", "Lease nothing until `resume`: all relays of the outbox, over restarts", true);
  add("resume", "Go on after `pause`", false);
}

}  // namespace outbox
