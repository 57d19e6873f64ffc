#include "relay/app/command_line_operations.h"

#include "relay/app/command_options.h"
#include "relay/app/units.h"

namespace outbox {
namespace {

void add_url(CLI::App& command, std::string& url) {
  command.add_option("--url", url, "of the relay (default: where http.listen says)")
      ->type_name("URL");
}

// Empty if it is a duration.
std::string duration_defect(const std::string& text) {
  const auto parsed = parse_duration(text);
  return parsed.ok() ? std::string{} : "'" + text + "' is no time: " + parsed.error;
}

}  // namespace

void OperationsCommands::add_to(CLI::App& app, const CommandRegistry& registry) {
  add_doctor(app, registry);
  add_status(app, registry);
  add_wait(app, registry);
}

void OperationsCommands::add_doctor(CLI::App& app, const CommandRegistry& registry) {
  auto* command = registry.add(
      app, "doctor", "Look for what may keep the relay from working well, and say how to mend it");
  add_output(*command, doctor_output_, Lines::no);
  registry.on_chosen(command, {.store = true}, [this](const Config& config) {
    return run_doctor(config, backends_, doctor_output_);
  });
}

void OperationsCommands::add_broker_test(CLI::App& group, const CommandRegistry& registry) {
  auto* command = registry.add(group, "test", "Connect to it and explain what comes of that");
  command->add_flag("--send", broker_.send, "send one event, clearly marked as a test");
  add_output(*command, broker_.output, Lines::no);
  registry.on_chosen(command, {.broker = true}, [this](const Config& config) {
    return test_broker(config, backends_, broker_);
  });
}

void OperationsCommands::add_status(CLI::App& app, const CommandRegistry& registry) {
  auto* command = registry.add(app, "status", "Show what the outbox and its relays are at");
  command->add_flag("--watch", status_.watch, "again and again, until q or Ctrl-C");
  add_url(*command, status_.url);
  add_output(*command, status_.output, Lines::yes);
  registry.on_chosen(command, {.store = true}, [this](const Config& config) {
    return show_status(config, backends_, status_);
  });
}

void OperationsCommands::add_wait(CLI::App& app, const CommandRegistry& registry) {
  const std::vector<std::pair<std::string, Condition>> conditions = {
      {"ready", Condition::ready},
      {"table", Condition::table},
      {"drained", Condition::drained},
      {"empty-dead-letters", Condition::empty_dead_letters}};
  auto* command = registry.add(app, "wait", "Wait until a condition holds");
  command
      ->add_option("--for", wait_.condition,
                   "what for: ready (default): the relay is; table: the outbox is there; drained: "
                   "nothing is left to deliver; empty-dead-letters: there are none")
      ->type_name("CONDITION")
      ->transform(one_of(conditions));
  command->add_option("--timeout", timeout_, "at most so long (default: 1m); 0s looks once")
      ->type_name("TIME")
      ->check(duration_defect);
  add_url(*command, wait_.url);
  // Whether it needs the store depends on the condition: see wait_for().
  registry.on_chosen(command, {}, [this](const Config& config) {
    if (!timeout_.empty()) wait_.timeout = parse_duration(timeout_).value;
    return wait_for(config, backends_, wait_);
  });
}

}  // namespace outbox
