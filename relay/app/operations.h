// The commands that look after an installation: doctor, broker test, status, wait, init --check.
// Data goes to stdout, talk to stderr; each returns the exit code.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "relay/app/commands.h"
#include "relay/app/config.h"
#include "relay/backends.h"

namespace outbox {

struct StatusOptions {
  OutputFormat output = OutputFormat::table;
  bool watch = false;
  std::string url;  // of the relay; empty: where http.listen says
};

enum class Condition { drained, ready, table, empty_dead_letters };

struct WaitOptions {
  Condition condition = Condition::ready;
  Duration timeout = std::chrono::minutes{1};
  std::string url;
};

struct BrokerTestOptions {
  OutputFormat output = OutputFormat::table;
  bool send = false;  // one event, clearly marked as a test
};

// Everything that may keep the relay from working well. 1 with errors or warnings, 3 if the store
// or the broker can't be reached.
int run_doctor(const Config& config, const Backends& backends, OutputFormat output);

// Connects to the broker and explains what came of it. 1 if the relay would not deliver, 3 if it
// can't be reached.
int test_broker(const Config& config, const Backends& backends, const BrokerTestOptions& options);

// One screen of what is going on. 3 if neither the store nor a relay can be asked.
int show_status(const Config& config, const Backends& backends, const StatusOptions& options);

// Waits for a condition. 1 if it does not come true in time, 3 if it can't be told.
int wait_for(const Config& config, const Backends& backends, const WaitOptions& options);

// Prints the statements that are missing. 5 if there are any.
int check_schema(const Config& config, const Backends& backends);

// Findings for people, or as a list of JSON objects.
std::string findings_table(const std::vector<Finding>& findings);
nlohmann::ordered_json to_json(const std::vector<Finding>& findings);

// 0, 1 or 3.
int exit_code_of(const std::vector<Finding>& findings);

}  // namespace outbox
