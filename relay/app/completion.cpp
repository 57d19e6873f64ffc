#include "relay/app/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "relay/app/config_keys.h"
#include "relay/app/printable.h"

namespace outbox {

// The files completion_tables.sh, completion.bash, ... by the build. @marks@ in them are filled in.
std::string_view embedded_completion_tables();
std::string_view embedded_completion_bash();
std::string_view embedded_completion_zsh();
std::string_view embedded_completion_fish();

namespace {

using Words = std::vector<std::string>;

std::string joined(const Words& words) { return fmt::format("{}", fmt::join(words, " ")); }

// "relay.batchSize=": the names that --set takes; of the brokers, those of the usual one. A map has
// those of its entries as well: "store.columns.id=".
Words setting_paths() {
  Words paths;
  for (const auto& key : config_keys()) {
    const std::string path = concrete_path(key.path, "main");
    paths.push_back(path + "=");
    if (key.kind != ValueKind::text_map) continue;
    for (const auto& entry : split(key.choices, "|")) paths.push_back(path + "." + entry + "=");
  }
  return paths;
}

// The settings whose values are words of a list.
std::vector<std::pair<std::string, Words>> setting_choices() {
  std::vector<std::pair<std::string, Words>> result;
  for (const auto& key : config_keys()) {
    Words words;
    if (key.kind == ValueKind::boolean) words = {"true", "false"};
    if (!key.choices.empty() && key.kind != ValueKind::text_map) words = split(key.choices, "|");
    std::erase(words, "");
    if (!words.empty()) result.emplace_back(concrete_path(key.path, "main"), std::move(words));
  }
  return result;
}

// The values that a flag takes, or is likely to be given.
Words values_of(const CommandFlag& flag) {
  if (flag.names.back() != "--preset") return flag.choices;
  return split(find_key("store.preset")->choices, "|");
}

bool names_a_file(const CommandFlag& flag) {
  return flag.type == "FILE" || flag.names[0] == "FILE";
}

// What the scripts of bash and zsh are filled with: cases over the path of a command and over
// "path flag".
struct Cases {
  std::string known;    // the paths of all commands
  std::string words;    // a command's path -> its commands and flags
  std::string valued;   // "path flag" of the flags that take a value
  std::string choices;  // "path flag" -> the values that it takes
  std::string files;    // "path flag" or a path whose argument is a file
  std::string settings;
};

void add_flag(Cases& cases, const CommandNode& node, const CommandFlag& flag, Words& words) {
  if (flag.positional) {
    if (names_a_file(flag)) cases.files += shell_quoted(node.path) + "|";
    words.insert(words.end(), flag.choices.begin(), flag.choices.end());
    return;
  }
  words.insert(words.end(), flag.names.begin(), flag.names.end());
  if (flag.type.empty()) return;
  const Words values = values_of(flag);
  for (const auto& name : flag.names) {
    const std::string pattern = shell_quoted(node.path + " " + name);
    cases.valued += pattern + "|";
    if (names_a_file(flag)) cases.files += pattern + "|";
    if (values.empty()) continue;
    cases.choices +=
        fmt::format("    {}) printf '%s\\n' {} ;;\n", pattern, shell_quoted(joined(values)));
  }
}

Cases cases_of(const CommandNode& root) {
  Cases cases;
  for (const auto* node : all_commands(root)) {
    Words words;
    for (const auto& command : node->commands) words.push_back(command.name);
    for (const auto& flag : node->flags) add_flag(cases, *node, flag, words);
    if (!node->path.empty()) cases.known += shell_quoted(node->path) + "|";
    cases.words += fmt::format("    {}) printf '%s\\n' {} ;;\n", shell_quoted(node->path),
                               shell_quoted(joined(words)));
  }
  for (auto* list : {&cases.known, &cases.valued, &cases.files}) {
    if (list->empty()) *list = "''|";
    list->pop_back();
  }
  for (const auto& [path, words] : setting_choices()) {
    cases.settings += fmt::format("    {}) printf '%s\\n' {} ;;\n", shell_quoted(path),
                                  shell_quoted(joined(words)));
  }
  return cases;
}

void replace(std::string& text, const std::string& mark, const std::string& with) {
  for (auto at = text.find(mark); at != std::string::npos; at = text.find(mark, at + with.size())) {
    text.replace(at, mark.size(), with);
  }
}

// The tables that bash and zsh share, and what they do with them.
std::string filled(std::string_view script, const CommandNode& root) {
  const Cases cases = cases_of(root);
  std::string text = std::string(embedded_completion_tables());
  text += script;
  replace(text, "@words@", cases.words);
  replace(text, "@choices@", cases.choices);
  replace(text, "@settings@", cases.settings);
  replace(text, "@paths@", shell_quoted(joined(setting_paths())));
  replace(text, "@known@", cases.known);
  replace(text, "@valued@", cases.valued);
  replace(text, "@files@", cases.files);
  return text;
}

std::string fish_flag(const std::string& at, const CommandFlag& flag) {
  std::string line = fmt::format("complete -c outbox-relay -n {}", at);
  for (const auto& name : flag.names) {
    const bool is_long = name.starts_with("--");
    line += fmt::format(" {} {}", is_long ? "-l" : "-s", name.substr(is_long ? 2 : 1));
  }
  Words values = values_of(flag);
  if (flag.names.back() == "--set") {
    values = setting_paths();
    for (const auto& [path, words] : setting_choices()) {
      for (const auto& word : words) values.push_back(fmt::format("{}={}", path, word));
    }
  }
  if (!flag.type.empty()) line += names_a_file(flag) ? " -r -F" : " -x";
  if (!values.empty()) line += " -a " + shell_quoted(joined(values));
  return line + fmt::format(" -d {}\n", shell_quoted(flag.help));
}

std::string fish_script(const CommandNode& root) {
  Words known;
  Words valued;
  std::string lines;
  for (const auto* node : all_commands(root)) {
    if (!node->path.empty()) known.push_back(shell_quoted(node->path));
    const std::string at =
        shell_quoted(fmt::format("__outbox_relay_at {}", shell_quoted(node->path)));
    for (const auto& command : node->commands) {
      lines += fmt::format("complete -c outbox-relay -n {} -a {} -d {}\n", at, command.name,
                           shell_quoted(command.help));
    }
    for (const auto& flag : node->flags) {
      if (flag.positional) {
        if (names_a_file(flag)) lines += fmt::format("complete -c outbox-relay -n {} -F\n", at);
        if (!flag.choices.empty()) {
          lines += fmt::format("complete -c outbox-relay -n {} -a {}\n", at,
                               shell_quoted(joined(flag.choices)));
        }
        continue;
      }
      lines += fish_flag(at, flag);
      if (flag.type.empty()) continue;
      valued.insert(valued.end(), flag.names.begin(), flag.names.end());
    }
  }
  std::ranges::sort(valued);
  valued.erase(std::unique(valued.begin(), valued.end()), valued.end());
  std::string text(embedded_completion_fish());
  replace(text, "@valued@", joined(valued));
  replace(text, "@known@", joined(known));
  return text + lines;
}

}  // namespace

std::string completion_script(const CommandNode& root, Shell shell) {
  switch (shell) {
    case Shell::bash:
      return filled(embedded_completion_bash(), root);
    case Shell::zsh:
      return "#compdef outbox-relay\n" + filled(embedded_completion_zsh(), root);
    case Shell::fish:
      return fish_script(root);
  }
  return {};
}

}  // namespace outbox
