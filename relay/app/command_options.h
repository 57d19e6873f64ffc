// Options that several commands have, and those with a limited set of values.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "relay/app/commands.h"
#include "relay/app/printable.h"

namespace outbox {

// Names that stand for an option's values, in any case, with dashes or underscores. Help and errors
// show the names, never what they stand for.
template <class Value>
CLI::Validator one_of(const std::vector<std::pair<std::string, Value>>& values) {
  std::vector<std::string> names;
  for (const auto& [name, value] : values) names.push_back(name);
  const auto read = [values, names](std::string& text) -> std::string {
    std::string wanted = CLI::detail::to_lower(text);
    std::ranges::replace(wanted, '_', '-');
    for (const auto& [name, value] : values) {
      if (name != wanted) continue;
      text = std::to_string(static_cast<int>(value));
      return {};
    }
    return fmt::format("\"{}\" is not one of {}", printable(text, 60), fmt::join(names, ", "));
  };
  return CLI::Validator(read, fmt::format("{{{}}}", fmt::join(names, ",")), "");
}

// A transform: a time as it stands, or, for how long ago it was, the time.
std::string as_time(const std::string& text);

// -o, --output: how the command writes its data; as lines only where there are many objects.
enum class Lines { no, yes };
void add_output(CLI::App& command, OutputFormat& output, Lines lines);

// --reason: what an operator says about an order.
CLI::Option* add_reason(CLI::App& command, std::string& reason);

}  // namespace outbox
