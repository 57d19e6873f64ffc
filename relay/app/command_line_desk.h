// The commands at the operator's desk: messages, dead letters, pause.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "relay/app/commands.h"

namespace outbox {

// Outlives the App that it adds to.
class DeskCommands {
 public:
  // How the command line makes a command with the flags that all have, and what it does then.
  struct Registry {
    std::function<CLI::App*(CLI::App& parent, const char* name, const char* help)> add;
    std::function<void(CLI::App*, const std::function<int(const Config&)>&)> on_chosen;
  };

  explicit DeskCommands(const Backends& backends) : backends_(backends) {}
  DeskCommands(const DeskCommands&) = delete;
  DeskCommands& operator=(const DeskCommands&) = delete;

  void add_to(CLI::App& app, const Registry& registry);

 private:
  using Treat = int (*)(const Config&, const Backends&, const DeadLetterOptions&);

  void add_messages(CLI::App& app, const Registry& registry);
  void add_find(CLI::App& group, const Registry& registry);
  void add_dead_letters(CLI::App& app, const Registry& registry);
  void add_treatment(CLI::App& group, const Registry& registry, const char* name, const char* help,
                     Treat treat);
  void add_letter_filter(CLI::App& command);
  void add_pause(CLI::App& app, const Registry& registry);

  const Backends& backends_;
  DeadLetterOptions letters_;
  std::vector<std::string> letter_ids_;
  MessageOptions messages_;
  std::vector<std::string> message_ids_;
  std::string pause_reason_;
};

}  // namespace outbox
