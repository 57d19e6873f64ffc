// What the subcommands do. Data goes to stdout, talk to stderr; each returns the exit code.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "relay/app/config.h"
#include "relay/backends.h"
#include "relay/outbox_desk.h"

namespace outbox {

struct InitOptions {
  bool apply = false;
  bool check = false;   // only tell what is missing
  bool grants = false;  // what a role needs, instead
  std::string role;     // empty: the user in the URL
};

enum class Probe { live, ready, startup };

enum class OutputFormat { table, json, jsonl };

struct DeadLetterOptions {
  DeadLetterFilter filter;
  OutputFormat output = OutputFormat::table;
  // Redrive and discard.
  bool dry_run = false;
  bool yes = false;
  std::string reason;  // goes to the audit table
  bool all = false;    // discard without a filter
  std::string file;    // export; empty: stdout
};

struct MessageOptions {
  MessageFilter filter;  // find
  std::string id;        // show
  bool payload = false;
  OutputFormat output = OutputFormat::table;
};

// Relays until a signal comes.
int run_relay(const Config& config, const Backends& backends);

// Prints the statements that create the outbox and the relay's tables, or runs them.
int init_outbox(const Config& config, const Backends& backends, const InitOptions& options);

// Tells what the configuration, already read, comes to.
int validate(const Config& config);

struct PrintConfigOptions {
  bool sources = false;   // where each setting comes from
  bool defaults = false;  // not what is in force, but what would be without any file
  bool schema = false;    // the JSON Schema of the file
  bool digest = false;    // only the digest that metrics and log tell
};

// Prints all settings as they are in force, as a file that could be read again.
int print_config(const Config& config, const Backends& backends, const PrintConfigOptions& options);

// Asks a running relay how it is. Works with a configuration that is otherwise broken: a relay that
// runs must not be called dead because its file was changed for the worse.
int healthcheck(const Config& config, Probe probe);

int list_dead_letters(const Config& config, const Backends& backends,
                      const DeadLetterOptions& options);
int redrive_dead_letters(const Config& config, const Backends& backends,
                         const DeadLetterOptions& options);

int discard_dead_letters(const Config& config, const Backends& backends,
                         const DeadLetterOptions& options);
int export_dead_letters(const Config& config, const Backends& backends,
                        const DeadLetterOptions& options);

int find_messages(const Config& config, const Backends& backends, const MessageOptions& options);
int show_message(const Config& config, const Backends& backends, const MessageOptions& options);
int show_dead_letter(const Config& config, const Backends& backends, const MessageOptions& options);

// Keeps every relay of this outbox from leasing, or lets them go on.
int pause_relays(const Config& config, const Backends& backends, bool paused,
                 const std::string& reason);

// Holds the broker's circuit open for every relay of this outbox, or lets it go.
int hold_circuit(const Config& config, const Backends& backends, bool hold,
                 const std::string& reason);

// Proposes settings for the table of the database that looks most like an outbox, or for `table`,
// and shows rows as they would go out. Writes nothing.
int detect_tables(const Config& config, const Backends& backends, const std::string& table);

// Rows whose time is not known.
enum class UnknownAge { ask, send, skip };

struct AdoptOptions {
  bool all = false;
  bool skip_older = false;  // than an hour
  std::optional<std::chrono::sys_time<std::chrono::milliseconds>> since;
  UnknownAge unknown = UnknownAge::ask;
  bool leave_others = false;  // begin although there are only rows in unknown states
  bool dry_run = false;
  std::string reason;
};

// Begins on a foreign table.
int adopt_table(const Config& config, const Backends& backends, const AdoptOptions& options);

int print_version(const Backends& backends, bool verbose);

}  // namespace outbox
