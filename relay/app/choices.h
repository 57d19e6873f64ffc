// Options with a limited set of values.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

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

}  // namespace outbox
