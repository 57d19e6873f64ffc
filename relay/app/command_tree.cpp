#include "relay/app/command_tree.h"

#include "relay/app/config_keys.h"

namespace outbox {
namespace {

// The library tells a limited set of values within the type's name: "FORMAT:{table,json}".
std::vector<std::string> choices_in(const std::string& type) {
  const auto begin = type.find('{');
  const auto end = type.find('}', begin);
  if (begin == std::string::npos || end == std::string::npos) return {};
  return split(type.substr(begin + 1, end - begin - 1), ",");
}

CommandFlag flag_of(const CLI::Option& option, const std::string& common_group) {
  CommandFlag flag;
  for (const auto& name : option.get_snames()) flag.names.push_back("-" + name);
  for (const auto& name : option.get_lnames()) flag.names.push_back("--" + name);
  flag.positional = flag.names.empty();
  if (flag.positional) flag.names.push_back(option.get_name(true));
  const std::string type = option.get_type_name();
  if (option.get_items_expected_max() > 0) {
    flag.type = type.substr(0, type.find(':'));
    flag.choices = choices_in(type);
  }
  flag.help = option.get_description();
  flag.common = option.get_group() == common_group;
  return flag;
}

CommandNode node_of(const CLI::App& app, const std::string& above,
                    const std::string& common_group) {
  CommandNode node;
  node.name = app.get_name();
  node.path = app.get_parent() == nullptr ? std::string{}
              : above.empty()             ? node.name
                                          : above + " " + node.name;
  node.help = app.get_description();
  for (const auto* option : app.get_options()) {
    node.flags.push_back(flag_of(*option, common_group));
  }
  for (const auto* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!command->get_group().empty()) {
      node.commands.push_back(node_of(*command, node.path, common_group));
    }
  }
  return node;
}

void collect(const CommandNode& node, std::vector<const CommandNode*>& nodes) {
  nodes.push_back(&node);
  for (const auto& command : node.commands) collect(command, nodes);
}

}  // namespace

CommandNode command_tree(const CLI::App& app, const std::string& common_group) {
  return node_of(app, "", common_group);
}

std::vector<const CommandNode*> all_commands(const CommandNode& root) {
  std::vector<const CommandNode*> nodes;
  collect(root, nodes);
  return nodes;
}

}  // namespace outbox
