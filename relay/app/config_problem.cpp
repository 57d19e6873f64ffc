#include "relay/app/config_problem.h"

#include <fmt/format.h>

#include "relay/app/printable.h"

namespace outbox {

std::string describe(const Origin& origin) {
  switch (origin.kind) {
    case Origin::Kind::fallback:
      return "default";
    case Origin::Kind::profile:
      return fmt::format("profile {}", printable(origin.name));
    case Origin::Kind::environment:
      return fmt::format("environment variable {}", printable(origin.name));
    case Origin::Kind::flag:
      return fmt::format("flag {}", printable(origin.name));
    case Origin::Kind::file:
      break;
  }
  if (origin.line == 0) return printable(origin.name, 1000);
  return fmt::format("{}:{}:{}", printable(origin.name, 1000), origin.line, origin.column);
}

std::string describe(const Problem& problem) {
  // A value that nobody gave stands nowhere.
  const bool nowhere = problem.origin.kind == Origin::Kind::fallback;
  std::string text = nowhere ? std::string{} : describe(problem.origin) + ": ";
  if (!problem.path.empty()) {
    text += printable(problem.path);
    if (!problem.value.empty()) text += fmt::format(" = \"{}\"", printable(problem.value));
    text += ": ";
  }
  return text + printable_sentence(problem.reason);
}

Problem problem_at(const Origin& origin, std::string path, std::string reason) {
  return {.origin = origin, .path = std::move(path), .value = {}, .reason = std::move(reason)};
}

}  // namespace outbox
