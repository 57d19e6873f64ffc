// mapping detect, adopt: somebody else's table.
#include <fmt/format.h>

#include "relay/app/commands.h"
#include "relay/app/exit_codes.h"
#include "relay/app/printable.h"
#include "relay/app/talk.h"

namespace outbox {
namespace {

// A name as YAML takes it, whatever is in it.
std::string yaml(const std::string& text) {
  std::string quoted = "\"";
  append_escaped(quoted, text, SIZE_MAX);
  return quoted + "\"";
}

void print_example(const Message& message) {
  const auto line = [](const char* name, const std::string& value) {
    print(fmt::format("#     {:<11} {}\n", name, printable_sentence(value, 60)));
  };
  print(fmt::format("#   - id          {}\n", printable(message.id, 60)));
  line("type", message.event_type);
  if (!message.occurred_on.empty()) line("time", message.occurred_on);
  if (message.ordering_key) line("key", *message.ordering_key);
  if (message.destination) line("destination", *message.destination);
  if (message.content_type) line("content", *message.content_type);
  for (const Header& header : message.headers) line("header", header.name + ": " + header.value);
  line("payload", message.payload);
  if (message.defect) line("NOT SENT", *message.defect);
}

// YAML that can be put into a configuration file; what is only to be read stands behind #.
void print_proposal(const StoreSettings& settings, const TableProposal& proposal) {
  print(fmt::format("store:\n  url: {}\n  table: {}\n  preset: {}\n",
                    yaml(redacted_url(settings.url)), yaml(proposal.table), proposal.preset));
  for (const auto& [title, entries] :
       {std::pair("columns", &settings.columns), std::pair("states", &settings.states)}) {
    if (entries->empty()) continue;
    print(fmt::format("  {}:\n", title));
    for (const auto& [key, name] : *entries) print(fmt::format("    {}: {}\n", key, yaml(name)));
  }
  if (!proposal.times.empty()) print(fmt::format("  times: {}\n", proposal.times));
  print("# its columns:\n");
  for (const auto& [key, name] : proposal.columns) {
    print(fmt::format("#   {:<16} {}\n", key, printable(name)));
  }
  print(fmt::format("# rows that would be sent: {}{}\n", proposal.waiting,
                    proposal.examples.empty() ? "" : "; the first:"));
  for (const Message& message : proposal.examples) print_example(message);
  if (proposal.waiting > 0) {
    print(
        "# old ones are sent only once `outbox-relay adopt` has said what is to become of them\n");
  }
}

}  // namespace

int detect_tables(const Config& config, const Backends& backends, const std::string& table) {
  const StoreSettings& settings = config.settings.store;
  const auto found = backends.stores.at(scheme_of(settings.url)).detect(settings, table);
  if (!found.ok()) return tell_failure(found);
  if (found.value.empty()) {
    say("no table here looks like an outbox: name its columns in store.columns");
    return kNotFound;
  }
  const TableProposal& best = found.value.front();
  if (!best.problem.empty()) {
    say(printable_sentence(best.problem));
    return kFailed;
  }
  print_proposal(settings, best);
  for (std::size_t i = 1; i < found.value.size(); ++i) {
    say(fmt::format("also like an outbox ({}): {}: see it with --table", found.value[i].preset,
                    printable(found.value[i].table)));
  }
  return kDone;
}

namespace {

AdoptionOrder order_of(const AdoptOptions& options) {
  AdoptionOrder order;
  order.reason = options.reason.empty() ? "by command" : options.reason;
  order.since = options.since;
  order.skip_unknown = options.unknown == UnknownAge::skip;
  if (options.skip_older) {
    order.since =
        std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now()) - kFreshAge;
  }
  return order;
}

std::string stand(std::uint64_t rows) {
  return counted(rows, "row") + (rows == 1 ? " stands" : " stand");
}

// What is wrong with the question; empty if nothing.
std::string mistake(const AdoptOptions& options, const StoreSettings& settings) {
  const int answers =
      (options.all ? 1 : 0) + (options.skip_older ? 1 : 0) + (options.since ? 1 : 0);
  if (answers != 1) {
    return "say what is to become of old rows: one of --all, --since TIME, --skip-older";
  }
  if (options.all && options.unknown != UnknownAge::ask) {
    return "--all sends rows of unknown age, too: --unknown goes with --since or --skip-older";
  }
  if (!settings.foreign()) {
    return "the preset is 'relay': the relay's own table needs no adoption; for another one say "
           "--preset (outbox-relay mapping detect proposes one)";
  }
  return {};
}

}  // namespace

int adopt_table(const Config& config, const Backends& backends, const AdoptOptions& options) {
  const StoreSettings& settings = config.settings.store;
  if (const std::string what = mistake(options, settings); !what.empty()) {
    say(what);
    return kUsage;
  }
  const auto& adopt = backends.stores.at(scheme_of(settings.url)).adopt;
  AdoptionOrder order = order_of(options);
  order.dry_run = true;
  auto done = adopt(settings, order);
  const bool undecided =
      order.since && options.unknown == UnknownAge::ask && done.value.unknown > 0;
  if (done.ok() && undecided) {
    say(
        fmt::format("{} of unknown age: say what is to become of them with --unknown send or "
                    "--unknown skip",
                    counted(done.value.unknown, "row")));
    return kFailed;
  }
  const bool nothing = done.value.taken + done.value.skipped == 0 && done.value.others > 0;
  if (done.ok() && nothing && !options.leave_others) {
    say(
        fmt::format("no row is to be sent, and {} in states that the relay does not know: that "
                    "looks like a mistake in store.states or store.columns.status (outbox-relay "
                    "doctor shows them); --leave-others begins all the same",
                    stand(done.value.others)));
    return kFailed;
  }
  if (done.ok() && !options.dry_run) {
    order.dry_run = false;
    done = adopt(settings, order);
  }
  if (!done.ok()) return tell_failure(done);
  print(fmt::format("{} {}, {} skipped\n", counted(done.value.taken, "row"),
                    options.dry_run ? "would be sent" : "to be sent", done.value.skipped));
  if (done.value.others > 0) {
    say(fmt::format("{} in states that the relay does not know, and left alone",
                    stand(done.value.others)));
  }
  return kDone;
}

}  // namespace outbox
