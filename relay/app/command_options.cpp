#include "relay/app/command_options.h"

#include <fmt/chrono.h>

#include <chrono>
#include <regex>

#include "relay/app/units.h"

namespace outbox {

std::string as_time(const std::string& text) {
  static const std::regex form(
      R"(\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?)?)");
  if (std::regex_match(text, form)) return text;
  const auto ago = parse_duration(text);
  if (!ago.ok()) {
    throw CLI::ValidationError(
        fmt::format("{}: write how long ago, such as 2h, or a time, such as 2026-11-30T18:00:00Z",
                    printable(text)));
  }
  const auto then =
      std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now() - ago.value);
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(then));
}

void add_output(CLI::App& command, OutputFormat& output, Lines lines) {
  std::vector<std::pair<std::string, OutputFormat>> formats = {{"table", OutputFormat::table},
                                                               {"json", OutputFormat::json}};
  const bool any = lines == Lines::yes;
  if (any) formats.emplace_back("jsonl", OutputFormat::jsonl);
  command
      .add_option("-o,--output", output,
                  any ? "how to write: table (default), json or jsonl"
                      : "how to write: table (default) or json")
      ->type_name("FORMAT")
      ->transform(one_of(formats));
}

CLI::Option* add_reason(CLI::App& command, std::string& reason) {
  return command.add_option("--reason", reason, "why, for the audit table")->type_name("TEXT");
}

}  // namespace outbox
