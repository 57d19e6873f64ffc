// The program's commands and flags as plain values: what completion and man page are written from.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

namespace outbox {

struct CommandFlag {
  std::vector<std::string> names;  // "-o", "--output"; of a positional argument, its name
  std::string type;                // of its value: "FILE"; empty: it has none
  std::string help;
  std::vector<std::string> choices;  // the values that it takes, if they are limited
  bool positional = false;
  bool common = false;  // one of those that every command has
};

struct CommandNode {
  std::string name;  // the last word: "list"
  std::string path;  // all words: "dead-letters list"; of the program itself, empty
  std::string help;
  std::vector<CommandFlag> flags;
  std::vector<CommandNode> commands;
};

// `common_group` names the group of flags that every command has.
CommandNode command_tree(const CLI::App& app, const std::string& common_group);

// The node itself and all below it, parents first.
std::vector<const CommandNode*> all_commands(const CommandNode& root);

}  // namespace outbox
