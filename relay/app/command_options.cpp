#include "relay/app/command_options.h"

namespace outbox {

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
