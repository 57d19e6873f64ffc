// The subcommands that look after an installation.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "relay/app/command_registry.h"
#include "relay/app/operations.h"

namespace outbox {

// Adds the commands to a command line and keeps what their flags say. Outlives the command line.
class OperationsCommands {
 public:
  explicit OperationsCommands(const Backends& backends) : backends_(backends) {}

  void add_to(CLI::App& app, const CommandRegistry& registry);
  // Into the group `broker`.
  void add_broker_test(CLI::App& group, const CommandRegistry& registry);

 private:
  void add_doctor(CLI::App& app, const CommandRegistry& registry);
  void add_status(CLI::App& app, const CommandRegistry& registry);
  void add_wait(CLI::App& app, const CommandRegistry& registry);

  const Backends& backends_;
  OutputFormat doctor_output_ = OutputFormat::table;
  StatusOptions status_;
  WaitOptions wait_;
  std::string timeout_;
  BrokerTestOptions broker_;
};

}  // namespace outbox
