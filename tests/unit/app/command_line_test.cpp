// The commands' exit codes and what they say where, with a database and a broker made of strings.
#include "relay/app/command_line.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "config_fixture.h"
#include "empty_desk.h"
#include "relay/app/exit_codes.h"

namespace outbox {
namespace {

using nlohmann::json;

// What an operator did to the desk, and what it holds.
struct DeskState {
  std::vector<DeadLetter> letters;
  std::string list_error;
  std::string redrive_error;
  std::uint64_t redriven = 0;  // told when there is an error
  bool nothing_left = false;   // somebody else was faster
  std::vector<DeadLetterFilter> filters;
  std::vector<std::string> reasons;
  std::vector<std::pair<bool, std::string>> holds;
};

class StateDesk final : public EmptyDesk {
 public:
  explicit StateDesk(DeskState& state) : state_(state) {}

  Answer<std::vector<DeadLetter>> dead_letters(const DeadLetterFilter& filter) override {
    state_.filters.push_back(filter);
    if (!state_.list_error.empty()) return {{}, state_.list_error};
    return {matching(filter), {}};
  }

  Answer<std::uint64_t> redrive(const DeadLetterFilter& filter, const std::string& reason,
                                const Progress&) override {
    state_.reasons.push_back(reason);
    if (!state_.redrive_error.empty()) return {state_.redriven, state_.redrive_error};
    return {state_.nothing_left ? 0 : matching(filter).size(), {}};
  }

  Answer<bool> hold_circuit(bool hold, const std::string& reason) override {
    if (!state_.list_error.empty()) return {false, state_.list_error};
    const bool before = !state_.holds.empty() && state_.holds.back().first;
    state_.holds.emplace_back(hold, reason);
    return {hold != before, {}};
  }

 private:
  std::vector<DeadLetter> matching(const DeadLetterFilter& filter) const {
    std::vector<DeadLetter> result;
    for (const auto& letter : state_.letters) {
      const bool wanted =
          filter.ids.empty() || std::ranges::find(filter.ids, letter.id) != filter.ids.end();
      if (wanted && result.size() < filter.limit) result.push_back(letter);
    }
    return result;
  }

  DeskState& state_;
};

// Everything that goes to a descriptor while it lives.
class Captured {
 public:
  explicit Captured(int descriptor) : descriptor_(descriptor), saved_(dup(descriptor)), file_("") {
    std::fflush(nullptr);
    const int file = open(file_.path().c_str(), O_WRONLY | O_TRUNC);
    REQUIRE(file >= 0);
    dup2(file, descriptor_);
    close(file);
  }
  ~Captured() {
    std::fflush(nullptr);
    dup2(saved_, descriptor_);
    close(saved_);
  }
  std::string text() const {
    std::fflush(nullptr);
    std::ifstream stream(file_.path());
    std::ostringstream text;
    text << stream.rdbuf();
    return text.str();
  }

 private:
  const int descriptor_;
  const int saved_;
  TemporaryFile file_;
};

struct Said {
  int code = 0;
  std::string out;
  std::string talk;
};

struct CommandFixture {
  DeskState state;
  Backends backends = named_backends();
  TemporaryFile config{kMinimal};

  CommandFixture() {
    auto& store = backends.stores["sqlite"];
    store.open_desk = [this](const StoreSettings&) -> std::unique_ptr<OutboxDesk> {
      return std::make_unique<StateDesk>(state);
    };
    store.ddl = [](const StoreSettings& settings) { return "CREATE " + settings.table + ";\n"; };
    store.apply_ddl = [](const StoreSettings& settings) {
      return settings.table == "bad" ? std::string("no such place") : std::string{};
    };
    for (const char* id : {"a", "b", "c"}) {
      DeadLetter letter;
      letter.id = id;
      letter.event_type = "asset.created";
      letter.reason = "permanent";
      letter.attempts = 1;
      letter.last_error = "HTTP 422\x1b[31m";
      state.letters.push_back(letter);
    }
  }

  Said run(std::vector<std::string> words) {
    std::vector<const char*> arguments = {"outbox-relay"};
    for (const auto& word : words) arguments.push_back(word.c_str());
    Said said;
    const int input = dup(STDIN_FILENO);
    const int nothing = open("/dev/null", O_RDONLY);  // no terminal to ask on
    dup2(nothing, STDIN_FILENO);
    {
      const Captured out(STDOUT_FILENO);
      const Captured talk(STDERR_FILENO);
      said.code = run_command_line(static_cast<int>(arguments.size()), arguments.data(), backends);
      said.out = out.text();
      said.talk = talk.text();
    }
    dup2(input, STDIN_FILENO);
    close(input);
    close(nothing);
    return said;
  }

  Said with_config(std::vector<std::string> words) {
    words.push_back("--config");
    words.push_back(config.path());
    return run(std::move(words));
  }
};

TEST_CASE_FIXTURE(CommandFixture,
                  "usage errors exit 2 with a hint on stderr and nothing on stdout") {
  const std::vector<std::vector<std::string>> wrong = {
      {},
      {"rnu"},
      {"run", "--no-such-flag"},
      {"run", "--config"},
      {"run", "stray"},
      {"dead-letters"},
      {"dead-letters", "list", "-o", "yaml"},
      {"dead-letters", "list", "--limit", "0"},
      {"dead-letters", "list", "--reason", "because"},
      {"healthcheck", "--kind", "dead"},
      {"validate", "--set", "relay.batchSize"},
      {"run", "validate"}};
  for (const auto& words : wrong) {
    CAPTURE(words.size() > 1 ? words[1] : words.empty() ? "" : words[0]);
    const auto said = run(words);
    CHECK(said.code == kUsage);
    CHECK(said.out.empty());
    CHECK_FALSE(said.talk.empty());
  }
  CHECK(run({"rnu"}).talk.find("did you mean \"run\"?") != std::string::npos);
  CHECK(run({"run", "--no-such-flag"}).talk.find("outbox-relay run --help") != std::string::npos);
  CHECK(run({"messages", "show"}).talk.find("outbox-relay messages show --help") !=
        std::string::npos);
  CHECK(run({"adopt", "--since", "then\x1b"}).talk.find("then\\u001b: write how long ago") !=
        std::string::npos);
}

TEST_CASE_FIXTURE(CommandFixture, "help and version go to stdout and exit 0") {
  CHECK(run({"--help"}).code == kDone);
  CHECK(run({"--help"}).out.find("dead-letters") != std::string::npos);
  CHECK(run({"run", "--help"}).out.find("--store") != std::string::npos);
  CHECK(run({"--version"}).out.find("outbox-relay 0.") == 0);
  const auto said = run({"version", "--verbose"});
  CHECK(said.code == kDone);
  CHECK(said.out.find("databases: sqlite:") != std::string::npos);
  CHECK(said.out.find("brokers: http: https: null: stdout:") != std::string::npos);
}

TEST_CASE_FIXTURE(CommandFixture, "validate tells the ladder's span and the duplicate window") {
  const auto said = with_config({"validate"});
  CHECK(said.code == kDone);
  CHECK(said.out.find("Retry ladder: 6 attempts") != std::string::npos);
  CHECK(said.out.find("Duplicates:") != std::string::npos);
  CHECK(run({"validate", config.path()}).code == kDone);
}

TEST_CASE_FIXTURE(CommandFixture, "a wrong configuration exits 78 and lists every problem") {
  const TemporaryFile wrong(
      "store: {url: 'sqlite:a', tabel: x}\nbrokers: {main: {url: 'null:'}}\nlog: {level: loud}\n");
  for (const char* command : {"validate", "run"}) {
    const auto said = run({command, "--config", wrong.path()});
    CHECK(said.code == kBadConfiguration);
    CHECK(said.out.empty());
    CHECK(said.talk.find("2 problems") != std::string::npos);
    CHECK(said.talk.find("store.tabel") != std::string::npos);
    CHECK(said.talk.find("log.level") != std::string::npos);
  }
}

TEST_CASE_FIXTURE(CommandFixture, "flags count before and after the command, the later ones more") {
  const auto said = run({"--store", "sqlite:a", "--broker", "null:", "--set", "relay.batchSize=7",
                         "print-config", "--set", "relay.maxInFlight=70", "--broker",
                         "stdout:", "--table", "events", "--sources"});
  CHECK(said.code == kDone);
  CHECK(said.out.find("  batchSize: 7  # flag --set") != std::string::npos);
  CHECK(said.out.find("  maxInFlight: 70  # flag --set") != std::string::npos);
  CHECK(said.out.find("    url: \"stdout:\"  # flag --broker") != std::string::npos);
  CHECK(said.out.find("  table: events  # flag --table") != std::string::npos);
  CHECK(said.out.find("  maxAttempts: 6  # default") != std::string::npos);
}

TEST_CASE_FIXTURE(CommandFixture,
                  "init prints statements on stdout, applies them when told, and needs no broker") {
  const auto printed = run({"init", "--store", "sqlite:a", "--table", "events"});
  CHECK(printed.code == kDone);
  CHECK(printed.out == "CREATE events;\n");
  const auto applied = run({"init", "--apply", "--store", "sqlite:a"});
  CHECK(applied.code == kDone);
  CHECK(applied.out.empty());
  const auto failed = run({"init", "--apply", "--store", "sqlite:a", "--table", "bad"});
  CHECK(failed.code == kFailed);
  CHECK(failed.talk.find("no such place") != std::string::npos);
  CHECK(run({"init"}).code == kBadConfiguration);
}

TEST_CASE_FIXTURE(
    CommandFixture,
    "a healthcheck of a relay that is not there exits 3, whatever else its file says") {
  const TemporaryFile wrong("http: {listen: '127.0.0.1:1'}\nstore: {tabel: x}\n");
  const auto said = run({"healthcheck", "--config", wrong.path()});
  CHECK(said.code == kNotReachable);
  CHECK(said.talk.find("127.0.0.1:1") != std::string::npos);
  const TemporaryFile nowhere("http: {listen: nowhere}\n");
  CHECK(run({"healthcheck", "--config", nowhere.path()}).code == kBadConfiguration);
}

TEST_CASE_FIXTURE(CommandFixture, "dead letters are listed as a table, as JSON and as JSON lines") {
  const auto table = with_config({"dead-letters", "list"});
  CHECK(table.code == kDone);
  CHECK(table.out.find("ID") == 0);
  CHECK(std::count(table.out.begin(), table.out.end(), '\n') == 4);
  CHECK(table.out.find('\x1b') == std::string::npos);
  const auto all = json::parse(with_config({"dead-letters", "list", "-o", "json"}).out);
  REQUIRE(all.size() == 3);
  CHECK(all[0]["id"] == "a");
  CHECK(all[0]["lastError"] == "HTTP 422\x1b[31m");
  const auto lines = with_config({"dead-letters", "list", "--output", "jsonl"}).out;
  CHECK(std::count(lines.begin(), lines.end(), '\n') == 3);
}

TEST_CASE_FIXTURE(CommandFixture, "the filters reach the desk") {
  const auto said =
      with_config({"dead-letters", "list", "a", "--id", "b", "--id", "c", "--event-type", "asset.*",
                   "--reason", "permanent", "--limit", "5"});
  CHECK(said.code == kDone);
  REQUIRE(state.filters.size() == 1);
  CHECK(state.filters[0].ids == std::vector<std::string>{"a", "b", "c"});
  CHECK(state.filters[0].event_type == "asset.*");
  CHECK(state.filters[0].reason == "permanent");
  CHECK(state.filters[0].limit == 5);
}

TEST_CASE_FIXTURE(CommandFixture, "an id that is no dead letter exits 4 and is named") {
  const auto listed = with_config({"dead-letters", "list", "--id", "zzz"});
  CHECK(listed.code == kNotFound);
  CHECK(listed.talk.find("zzz") != std::string::npos);
  const auto redriven = with_config({"dead-letters", "redrive", "--yes", "zzz"});
  CHECK(redriven.code == kNotFound);
  CHECK(state.reasons.empty());
}

TEST_CASE_FIXTURE(CommandFixture, "a database that can't be reached exits 3 and says why") {
  state.list_error = "no file /data/app.db";
  for (const char* command : {"list", "redrive"}) {
    const auto said = with_config({"dead-letters", command});
    CHECK(said.code == kNotReachable);
    CHECK(said.talk.find("/data/app.db") != std::string::npos);
  }
}

TEST_CASE_FIXTURE(CommandFixture,
                  "without a terminal a redrive needs --yes, and a dry run changes nothing") {
  const auto refused = with_config({"dead-letters", "redrive"});
  CHECK(refused.code == kUsage);
  CHECK(refused.talk.find("--yes") != std::string::npos);
  const auto dry = with_config({"dead-letters", "redrive", "--dry-run", "a", "-o", "jsonl"});
  CHECK(dry.code == kDone);
  CHECK(json::parse(dry.out)["id"] == "a");
  CHECK(state.reasons.empty());
}

TEST_CASE_FIXTURE(CommandFixture, "a redrive tells how many, and hands its reason on") {
  const auto said = with_config({"dead-letters", "redrive", "--yes", "--reason", "mended"});
  CHECK(said.code == kDone);
  CHECK(said.out == "3 redriven\n");
  CHECK(state.reasons == std::vector<std::string>{"mended"});
  CHECK(json::parse(with_config({"dead-letters", "redrive", "--yes", "-o", "json"}).out) ==
        json{{"redriven", 3}});
}

TEST_CASE_FIXTURE(CommandFixture, "a redrive that is done in part says so by its exit code") {
  CHECK(with_config({"dead-letters", "redrive", "--yes", "a", "zzz"}).code == kPartlyDone);
  state.redrive_error = "disk full";
  CHECK(with_config({"dead-letters", "redrive", "--yes"}).code == kFailed);
  state.redriven = 2;
  CHECK(with_config({"dead-letters", "redrive", "--yes"}).code == kPartlyDone);
  state.redrive_error.clear();
  state.nothing_left = true;
  CHECK(with_config({"dead-letters", "redrive", "--yes"}).code == kConflict);
}

TEST_CASE_FIXTURE(CommandFixture, "an operator isolates the broker and lets it go, with a reason") {
  CHECK(with_config({"broker", "isolate", "--reason", "it moves"}).code == kDone);
  CHECK(with_config({"broker", "close"}).code == kDone);
  REQUIRE(state.holds.size() == 2);
  CHECK(state.holds[0] == std::pair<bool, std::string>{true, "it moves"});
  CHECK_FALSE(state.holds[1].first);
  CHECK(with_config({"broker"}).code == kUsage);
  state.list_error = "no file";
  CHECK(with_config({"broker", "close"}).code == kNotReachable);
}

TEST_CASE_FIXTURE(CommandFixture, "isolating twice is done, and says that nothing has changed") {
  CHECK(with_config({"broker", "close"}).talk.find("was not isolated") != std::string::npos);
  CHECK(with_config({"broker", "isolate"}).talk.find("publish nothing") != std::string::npos);
  const auto again = with_config({"broker", "isolate"});
  CHECK(again.code == kDone);
  CHECK(again.talk.find("isolated already") != std::string::npos);
}

TEST_CASE_FIXTURE(CommandFixture, "help and errors name an option's values plainly") {
  CHECK(run({"status", "--help"}).out.find("FORMAT:{table,json,jsonl}") != std::string::npos);
  CHECK(run({"--help-all"}).out.find("->") == std::string::npos);
  const auto wrong = run({"wait", "--for", "foo"}).talk;
  CHECK(wrong.find(" \"foo\" is not one of ready, table, drained, empty-dead-letters") !=
        std::string::npos);
  CHECK(run({"status", "-o", "1"}).code == kUsage);
  CHECK(run({"messages", "find", "--state", "nope"}).talk.find("dead-lettered") !=
        std::string::npos);
}

TEST_CASE_FIXTURE(CommandFixture, "a redrive of nothing is done") {
  state.letters.clear();
  const auto said = with_config({"dead-letters", "redrive", "--yes"});
  CHECK(said.code == kDone);
  CHECK(said.out == "0 redriven\n");
  CHECK(said.talk.find("no dead letter matches") != std::string::npos);
}

}  // namespace
}  // namespace outbox
