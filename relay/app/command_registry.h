// How a group of commands adds itself to the command line.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "relay/app/config.h"

namespace outbox {

// What a command needs of the configuration.
struct Needs {
  bool store = false;
  bool broker = false;
  bool valid = true;  // with problems the command is not begun
};

// Only used while commands are added; what they do is kept by the command line.
struct CommandRegistry {
  using Action = std::function<int(const Config&)>;
  // A command with the flags that all have.
  std::function<CLI::App*(CLI::App& parent, const char* name, const char* help)> add;
  // What it does when it is chosen, once the configuration was read; returns the exit code.
  std::function<void(CLI::App* command, Needs needs, const Action& action)> on_chosen;
};

}  // namespace outbox
