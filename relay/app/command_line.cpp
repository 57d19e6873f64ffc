#include "relay/app/command_line.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <optional>

#include "relay/app/command_line_desk.h"
#include "relay/app/command_line_operations.h"
#include "relay/app/command_options.h"
#include "relay/app/command_registry.h"
#include "relay/app/commands.h"
#include "relay/app/completion.h"
#include "relay/app/demo.h"
#include "relay/app/exit_codes.h"
#include "relay/app/man_page.h"
#include "relay/app/printable.h"
#include "relay/app/suggest.h"
#include "relay/app/talk.h"
#include "relay/app/units.h"

namespace outbox {
namespace {

// The group of the flags that every command has.
constexpr const char* kCommonGroup = "Configuration";

// The flags that every command has, as they were given.
struct CommonFlags {
  std::optional<std::string> config;
  std::optional<std::string> store;
  std::optional<std::string> broker;
  std::optional<std::string> table;
  std::optional<std::string> preset;
  std::vector<std::string> set;
};

void add_common_flags(CLI::App& app, CommonFlags& flags) {
  const auto add = [&](const char* name, std::optional<std::string>& target, const char* type,
                       const char* help) {
    app.add_option(name, target, help)->type_name(type)->group(kCommonGroup);
  };
  add("--config", flags.config, "FILE", "the file to read (default: /etc/outbox-relay/relay.yaml)");
  add("--store", flags.store, "URL", "the database, such as sqlite:///data/app.db");
  add("--broker", flags.broker, "URL", "where messages go, such as https://example.com/inbox");
  add("--table", flags.table, "NAME", "the outbox table");
  add("--preset", flags.preset, "NAME", "the kind of table");
  app.add_option("--set", flags.set, "any setting, such as relay.batchSize=50; may be repeated")
      ->type_name("PATH=VALUE")
      ->allow_extra_args(false)
      ->group(kCommonGroup);
}

[[noreturn]] void usage_mistake(const std::string& sentence) {
  throw CLI::ValidationError(sentence);
}

void add_flag_values(const CommonFlags& flags, ConfigInput& input) {
  const auto add = [&](const char* flag, const char* path, const std::optional<std::string>& text) {
    if (text) input.flags.push_back({flag, path, *text});
  };
  if (flags.config) {
    input.file = *flags.config;
    input.file_required = true;
  }
  for (const auto& text : flags.set) {
    const auto equals = text.find('=');
    if (equals == std::string::npos) {
      usage_mistake(
          fmt::format("--set {}: write PATH=VALUE, such as relay.batchSize=50", printable(text)));
    }
    input.flags.push_back({"--set", text.substr(0, equals), text.substr(equals + 1)});
  }
  add("--store", "store.url", flags.store);
  add("--broker", "broker.url", flags.broker);
  add("--table", "store.table", flags.table);
  add("--preset", "store.preset", flags.preset);
}

std::vector<std::string> names_below(const CLI::App& app) {
  std::vector<std::string> names;
  for (const auto* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

class CommandLine {
 public:
  explicit CommandLine(const Backends& backends)
      : backends_(backends),
        operations_(backends),
        desk_(backends),
        app_("Relays messages from a database's outbox table to a message broker.",
             "outbox-relay") {
    app_.set_help_all_flag("--help-all", "Help for all commands");
    app_.set_version_flag("--version", std::string("outbox-relay ") + OUTBOX_VERSION);
    app_.require_subcommand(0, 1);
    add_common_flags(app_, before_);
    add_run();
    add_init();
    add_mapping();
    add_adopt();
    add_validate();
    add_print_config();
    add_healthcheck();
    operations_.add_to(app_, registry());
    desk_.add_to(app_, registry());
    add_broker();
    add_demo();
    add_completion();
    add_man();
    add_version();
  }

  int run(int argc, const char* const* argv) {
    try {
      app_.parse(argc, argv);
      if (action_) return action_();
    } catch (const CLI::Success& wanted) {
      return app_.exit(wanted);  // --help, --version
    } catch (const CLI::ParseError& error) {
      return usage_error(error.what(), argc, argv);
    }
    std::fputs(app_.help().c_str(), stderr);
    return kUsage;
  }

 private:
  using Action = CommandRegistry::Action;

  CLI::App* add_command(CLI::App& parent, const char* name, const char* help) {
    auto* command = parent.add_subcommand(name, help);
    add_common_flags(*command, after_);
    return command;
  }

  // Reads the configuration when the command is chosen, then does it.
  void on_chosen(CLI::App* command, Needs needs, const Action& action) {
    command->callback([this, needs, action] {
      action_ = [this, needs, action] {
        ConfigInput input;
        input.environment = process_environment();
        input.needs_store = needs.store;
        input.needs_broker = needs.broker;
        if (file_to_check_ && (before_.config || after_.config)) {
          usage_mistake("validate: name one file, as FILE or with --config");
        }
        if (file_to_check_) after_.config = file_to_check_;
        add_flag_values(before_, input);
        add_flag_values(after_, input);
        const Config config = load_config(input, backends_);
        if (needs.valid && !config.usable()) return refuse(config.problems);
        return action(config);
      };
    });
  }

  CommandRegistry registry() {
    return {.add = [this](CLI::App& parent, const char* name,
                          const char* help) { return add_command(parent, name, help); },
            .on_chosen = [this](CLI::App* command, Needs needs,
                                const Action& action) { on_chosen(command, needs, action); }};
  }

  void add_run() {
    auto* command = add_command(app_, "run", "Relay until SIGTERM or SIGINT");
    on_chosen(command, {.store = true, .broker = true},
              [this](const Config& config) { return run_relay(config, backends_); });
  }

  void add_init() {
    auto* command = add_command(
        app_, "init", "Print the statements that create the outbox and the relay's tables");
    command->add_flag("--apply", init_.apply, "run them; a missing SQLite file is created");
    command
        ->add_flag("--check", init_.check, "print only what is missing, and exit with 5 if that is")
        ->excludes("--apply");
    auto* grants =
        command
            ->add_option("--grants", init_.role,
                         "print what a role needs: ROLE, or the user in store.url; no more than "
                         "that is granted")
            ->type_name("[ROLE]")
            ->expected(0, 1)
            ->excludes("--apply")
            ->excludes("--check");
    on_chosen(command, {.store = true}, [this, grants](const Config& config) {
      init_.grants = grants->count() > 0;
      return init_outbox(config, backends_, init_);
    });
  }

  void add_mapping() {
    auto* group = app_.add_subcommand("mapping", "Use an outbox table that is there already");
    group->require_subcommand(1);
    auto* detect = add_command(*group, "detect",
                               "Propose settings for it, and show rows as they would go out");
    on_chosen(detect, {.store = true}, [this](const Config& config) {
      const auto& table = after_.table ? after_.table : before_.table;
      return detect_tables(config, backends_, table.value_or(""));
    });
  }

  void add_adopt() {
    auto* command = add_command(
        app_, "adopt", "Say what is to become of old rows in a table that was there before");
    command->add_flag("--all", adopt_.all, "send all of them");
    command
        ->add_option_function<std::string>(
            "--since",
            [this](const std::string& text) {
              adopt_.since = parse_instant(text);
              if (adopt_.since) return;
              usage_mistake(fmt::format("--since {}: write a time such as 2026-11-30T18:00:00Z",
                                        printable(text)));
            },
            "send those of events since then, or since so long ago; leave the others alone")
        ->type_name("TIME")
        ->transform(as_time);
    command->add_flag("--skip-older", adopt_.skip_older,
                      "leave those alone that are older than an hour");
    command->add_option("--unknown", adopt_.unknown, "send or skip rows whose age is not known")
        ->type_name("WHAT")
        ->transform(one_of<UnknownAge>({{"send", UnknownAge::send}, {"skip", UnknownAge::skip}}));
    command->add_flag("--leave-others", adopt_.leave_others,
                      "begin although all rows are in states that nobody knows");
    command->add_flag("--dry-run", adopt_.dry_run, "only count");
    add_reason(*command, adopt_.reason);
    on_chosen(command, {.store = true},
              [this](const Config& config) { return adopt_table(config, backends_, adopt_); });
  }

  void add_validate() {
    auto* command = add_command(app_, "validate", "Check the configuration without connecting");
    command->add_option("FILE", file_to_check_, "the file to check");
    on_chosen(command, {.store = true, .broker = true}, validate);
  }

  void add_print_config() {
    auto* command = add_command(app_, "print-config", "Print all settings, secrets hidden");
    auto* sources = command->add_flag("--sources", print_.sources, "say where each comes from");
    auto* defaults = command->add_flag("--defaults", print_.defaults, "print the defaults instead");
    auto* schema = command->add_flag("--schema", print_.schema,
                                     "print a JSON Schema of the configuration file instead");
    command->add_flag("--digest", print_.digest, "print only the digest that metrics and log tell")
        ->excludes(schema, defaults, sources);
    schema->excludes(sources, defaults);
    on_chosen(command, {.valid = false},
              [this](const Config& config) { return print_config(config, backends_, print_); });
  }

  void add_healthcheck() {
    auto* command = add_command(app_, "healthcheck", "Ask a running relay how it is");
    command->add_option("--kind", probe_, "what to ask: live (default), ready or startup")
        ->type_name("KIND")
        ->transform(one_of<Probe>(
            {{"live", Probe::live}, {"ready", Probe::ready}, {"startup", Probe::startup}}));
    on_chosen(command, {.valid = false},
              [this](const Config& config) { return healthcheck(config, probe_); });
  }

  void add_broker() {
    auto* group =
        app_.add_subcommand("broker", "Test the broker, stop publishing to it, and go on");
    group->require_subcommand(1);
    const auto add = [&](const char* name, const char* help, bool hold) {
      auto* command = add_command(*group, name, help);
      add_reason(*command, broker_reason_);
      on_chosen(command, {.store = true}, [this, hold](const Config& config) {
        return hold_circuit(config, backends_, hold, broker_reason_);
      });
    };
    add("isolate", "Hold its circuit open until `broker close`, over restarts, for all relays",
        true);
    add("close", "Let its circuit go", false);
    operations_.add_broker_test(*group, registry());
  }

  void add_demo() {
    auto* command =
        app_.add_subcommand("demo", "See it work: an outbox, a broker to break, the relay");
    command->add_flag("--auto,--no-terminal", demo_.automatic,
                      "tell the story without a keyboard, and check it");
    command->add_option("--rate", demo_.rate, "events a second, 1 to 200 (default: 20)")
        ->type_name("N")
        ->check(CLI::Range(1, 200));
    command->callback([this] { action_ = [this] { return run_demo(demo_); }; });
  }

  void add_completion() {
    auto* command =
        app_.add_subcommand("completion", "Print a script that completes commands in a shell");
    command->add_option("SHELL", shell_, "the shell to write it for")
        ->required()
        ->transform(
            one_of<Shell>({{"bash", Shell::bash}, {"zsh", Shell::zsh}, {"fish", Shell::fish}}));
    command->callback([this] {
      action_ = [this] {
        std::fputs(completion_script(command_tree(app_, kCommonGroup), shell_).c_str(), stdout);
        return kDone;
      };
    });
  }

  void add_man() {
    auto* command = app_.add_subcommand("man", "Print the man page; read it with `man -l -`");
    command->callback([this] {
      action_ = [this] {
        std::fputs(man_page(command_tree(app_, kCommonGroup), OUTBOX_VERSION).c_str(), stdout);
        return kDone;
      };
    });
  }

  void add_version() {
    auto* command = app_.add_subcommand("version", "Say which version this is");
    command->add_flag("--verbose", verbose_, "and which databases and brokers it was built with");
    command->callback([this] { action_ = [this] { return print_version(backends_, verbose_); }; });
  }

  // The command that the words name as far as they go, with what was meant by the next one.
  int usage_error(const std::string& what, int argc, const char* const* argv) {
    const CLI::App* command = &app_;
    std::string path = "outbox-relay";
    std::string meant;
    for (int index = 1; index < argc; ++index) {
      const std::string word = argv[index];
      // Behind a flag stands the flag's value.
      const std::string_view before = index > 1 ? argv[index - 1] : "";
      const bool value = before.starts_with("-") && before.find('=') == std::string_view::npos;
      if (word.starts_with("-") || value) continue;
      const auto names = names_below(*command);
      if (std::ranges::find(names, word) == names.end()) {
        meant = did_you_mean(word, names);
        break;
      }
      command = command->get_subcommand(word);
      path += " " + word;
    }
    std::fputs(fmt::format("outbox-relay: {}{}\nSee: {} --help\n", printable_sentence(what, 500),
                           meant, path)
                   .c_str(),
               stderr);
    return kUsage;
  }

  const Backends& backends_;
  OperationsCommands operations_;
  DeskCommands desk_;
  CLI::App app_;
  std::function<int()> action_;
  CommonFlags before_;  // given before the command
  CommonFlags after_;   // given after it
  InitOptions init_;
  AdoptOptions adopt_;
  Probe probe_ = Probe::live;
  std::optional<std::string> file_to_check_;
  std::string broker_reason_;
  DemoOptions demo_;
  PrintConfigOptions print_;
  Shell shell_ = Shell::bash;
  bool verbose_ = false;
};

// Whoever reads our output has heard enough: `| head`.
bool nobody_reads(int error) {
  if (error == EPIPE) return true;
  pollfd output = {STDOUT_FILENO, POLLOUT, 0};
  return poll(&output, 1, 0) == 1 && (output.revents & POLLERR) != 0;
}

// A command whose output was lost has not done what it was asked for.
int with_output_written(int code) {
  const bool failed_before = std::ferror(stdout) != 0;
  const int error = std::fflush(stdout) == 0 ? 0 : errno;
  if ((error == 0 && !failed_before) || nobody_reads(error)) return code;
  const char* reason = error == 0 ? "not all of it was taken" : std::strerror(error);
  std::fputs(fmt::format("outbox-relay: can't write to standard output: {}\n", reason).c_str(),
             stderr);
  return code == kDone ? kFailed : code;
}

}  // namespace

int run_command_line(int argc, const char* const* argv, const Backends& backends) {
  return with_output_written(CommandLine(backends).run(argc, argv));
}

}  // namespace outbox
