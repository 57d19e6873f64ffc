// The commands at the operator's desk: messages, dead letters, pause.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "relay/app/command_registry.h"
#include "relay/app/commands.h"

namespace outbox {

// Outlives the App that it adds to.
class DeskCommands {
 public:
  explicit DeskCommands(const Backends& backends) : backends_(backends) {}
  DeskCommands(const DeskCommands&) = delete;
  DeskCommands& operator=(const DeskCommands&) = delete;

  void add_to(CLI::App& app, const CommandRegistry& registry);

 private:
  using Show = int (*)(const Config&, const Backends&, const MessageOptions&);
  using Treat = int (*)(const Config&, const Backends&, const DeadLetterOptions&);

  void add_messages(CLI::App& app, const CommandRegistry& registry);
  void add_find(CLI::App& group, const CommandRegistry& registry);
  void add_dead_letters(CLI::App& app, const CommandRegistry& registry);
  void add_treatment(CLI::App& group, const CommandRegistry& registry, const char* name,
                     const char* help, Treat treat);
  void add_show(CLI::App& group, const CommandRegistry& registry, const char* help, Show show);
  void add_dead_reason(CLI::App& command, const char* names);
  void add_letter_filter(CLI::App& command);
  void add_pause(CLI::App& app, const CommandRegistry& registry);

  const Backends& backends_;
  DeadLetterOptions letters_;
  std::vector<std::string> letter_ids_;
  MessageOptions messages_;
  std::vector<std::string> message_ids_;
  std::string pause_reason_;
};

}  // namespace outbox
