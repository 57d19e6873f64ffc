// Completion of commands, flags and settings in a shell.
#pragma once

#include <string>

#include "relay/app/command_tree.h"

namespace outbox {

enum class Shell { bash, zsh, fish };

// A script that the shell reads once. It needs nothing but the shell, and never runs the program.
std::string completion_script(const CommandNode& root, Shell shell);

}  // namespace outbox
