// Findings as text.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "relay/app/exit_codes.h"
#include "relay/app/operations.h"
#include "relay/app/printable.h"

namespace outbox {
namespace {

std::string line(const char* title, const std::string& text) {
  return fmt::format("  {:<4} {}\n", title, printable_sentence(text));
}

// A fix may be a script: line by line, each below the other.
std::string lines(const std::string& title, const std::string& text) {
  std::string result;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    result += fmt::format("  {:<4} {}\n", result.empty() ? title : "",
                          printable_sentence(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return result;
}

}  // namespace

std::string findings_table(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    if (!text.empty()) text += "\n";
    const bool note = finding.severity == Severity::information;
    text += fmt::format("{}: {}\n", note ? "note" : name_of(finding.severity), finding.code);
    text += line("saw", finding.what);
    text += line("why", finding.why);
    if (finding.fix.empty()) continue;
    const bool words = finding.fix_kind == FixKind::advice;
    text += lines(words ? "do" : (finding.fix_kind == FixKind::sql ? "sql" : "run"), finding.fix);
  }
  return text;
}

nlohmann::ordered_json to_json(const std::vector<Finding>& findings) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Finding& finding : findings) {
    nlohmann::ordered_json one;
    one["severity"] = name_of(finding.severity);
    one["code"] = finding.code;
    one["what"] = finding.what;
    one["why"] = finding.why;
    one["fix"] = finding.fix;
    one["fixKind"] = name_of(finding.fix_kind);
    all.push_back(std::move(one));
  }
  return all;
}

int exit_code_of(const std::vector<Finding>& findings) {
  const auto unreachable = [](const Finding& one) { return one.unreachable; };
  const auto serious = [](const Finding& one) { return one.severity != Severity::information; };
  if (std::ranges::any_of(findings, unreachable)) return kNotReachable;
  return std::ranges::any_of(findings, serious) ? kFailed : kDone;
}

}  // namespace outbox
