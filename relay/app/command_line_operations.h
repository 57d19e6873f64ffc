// The subcommands that look after an installation.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "relay/app/operations.h"

namespace outbox {

// Adds the commands to a command line and keeps what their flags say. Outlives the command line.
class OperationsCommands {
 public:
  using Action = std::function<int(const Config&)>;
  struct Registry {
    // A subcommand with the flags that all have.
    std::function<CLI::App*(CLI::App& parent, const char* name, const char* help)> add;
    // What to do when it is chosen; which part of the configuration it can't do without.
    std::function<void(CLI::App* command, bool needs_store, bool needs_broker,
                       const Action& action)>
        on_chosen;
  };

  explicit OperationsCommands(const Backends& backends) : backends_(backends) {}

  void add_to(CLI::App& app, const Registry& registry);
  // Into the group `broker`.
  void add_broker_test(CLI::App& group, const Registry& registry);

 private:
  void add_doctor(CLI::App& app, const Registry& registry);
  void add_status(CLI::App& app, const Registry& registry);
  void add_wait(CLI::App& app, const Registry& registry);

  const Backends& backends_;
  OutputFormat doctor_output_ = OutputFormat::table;
  StatusOptions status_;
  WaitOptions wait_;
  std::string timeout_;
  BrokerTestOptions broker_;
};

}  // namespace outbox
