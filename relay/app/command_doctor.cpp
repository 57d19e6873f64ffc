#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "relay/app/boot_clock.h"
#include "relay/app/exit_codes.h"
#include "relay/app/operations.h"
#include "relay/app/printable.h"
#include "relay/app/talk.h"
#include "relay/app/units.h"

namespace outbox {
namespace {

// Below this the relay has little time for a row between two renewals of its lease.
constexpr int kTermsComfortable = 4;

std::string shell_word(const std::string& text) {
  const bool plain = text.find_first_not_of(
                         "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                         "0123456789_-./:=,@%+") == std::string::npos;
  if (plain && !text.empty()) return text;
  return shell_quoted(text);
}

// The store as this command line named it, for another one: what comes from elsewhere holds there
// as well.
std::string store_flags(const ConfigInput& input) {
  std::string flags;
  if (input.file_required) flags += " --config " + shell_word(input.file);
  for (const auto& flag : input.flags) {
    if (!flag.path.starts_with("store.")) continue;
    const bool any = flag.flag == "--set";
    flags += " " + flag.flag + " " + shell_word(any ? flag.path + "=" + flag.value : flag.value);
  }
  return flags;
}

// So that a command can be pasted as it stands.
void complete_commands(std::vector<Finding>& findings, const ConfigInput& input) {
  for (Finding& finding : findings) {
    if (finding.fix_kind != FixKind::command || !finding.fix.starts_with("outbox-relay ")) continue;
    finding.fix += store_flags(input);
  }
}

void add_backlog(const Backlog& backlog, std::vector<Finding>& findings) {
  if (backlog.dead_lettered > 0) {
    std::string types;
    for (const auto& [type, count] : backlog.dead_by_event_type) {
      if (types.size() > 200) break;
      types += fmt::format("{}{} ({})", types.empty() ? "" : ", ", type, count);
    }
    findings.push_back(
        {.severity = Severity::information,
         .code = "dead_letters",
         .what = fmt::format("There {} {}: {}.", backlog.dead_lettered == 1 ? "is" : "are",
                             counted(backlog.dead_lettered, "dead letter"), types),
         .why = "They are not delivered until somebody redrives them.",
         .fix_kind = FixKind::command,
         .fix = "outbox-relay dead-letters list"});
  }
  if (!backlog.oldest_age) return;
  const std::uint64_t waiting = backlog.pending + backlog.failed + backlog.leased;
  findings.push_back(
      {.severity = Severity::information,
       .code = "backlog",
       .what = fmt::format("{} {} to be delivered, the oldest for {}.", counted(waiting, "event"),
                           waiting == 1 ? "waits" : "wait", about_duration(*backlog.oldest_age)),
       .why = "An age that keeps growing says that something stands in their way."});
}

void add_lease_term(const Settings& settings, std::vector<Finding>& findings) {
  const Duration term = settings.relay.lease_term;
  const Duration timeout = settings.publisher.publish_timeout;
  if (term >= kTermsComfortable * timeout) return;
  findings.push_back(
      {.severity = Severity::information,
       .code = "lease_term",
       .what = fmt::format("relay.leaseTerm ({}) is less than {} times publishTimeout ({}).",
                           format_duration(term), kTermsComfortable, format_duration(timeout)),
       .why = "Nothing may be sent toward the end of a lease, so that little of it is left when "
              "the broker is slow.",
       .fix = fmt::format("Set relay.leaseTerm to {} or more.",
                          format_duration(kTermsComfortable * timeout))});
}

std::vector<Finding> look_at_broker(const Settings& settings, const PublisherBackend& publisher) {
  std::vector<Finding> findings;
  // What is wrong with settings themselves has kept the doctor from beginning.
  for (const auto& defect : publisher.check(settings.publisher)) {
    findings.push_back(
        {.severity = Severity::error,
         .code = "broker_file",
         .what = fmt::format("brokers.{}.{}: {}.", settings.broker, defect.setting, defect.text),
         .why = "A relay does not start without it; one that runs keeps what it read before.",
         .fix = "Mend the file, or what the relay's user may read. The broker was not asked."});
  }
  if (!findings.empty() || !publisher.test) return findings;
  const BootClock clock;
  return publisher.test(settings.publisher, clock).findings;
}

std::vector<Finding> look_at_store(const Settings& settings, const StoreBackend& store) {
  std::vector<Finding> findings;
  if (store.inspect) findings = store.inspect(settings.store);
  if (exit_code_of(findings) == kNotReachable) return findings;
  const auto backlog = store.open_desk(settings.store)->backlog();
  if (backlog.ok()) add_backlog(backlog.value, findings);
  return findings;
}

void append(std::vector<Finding>& findings, std::vector<Finding> more) {
  findings.insert(findings.end(), std::make_move_iterator(more.begin()),
                  std::make_move_iterator(more.end()));
}

void tell_summary(const std::vector<Finding>& findings) {
  const auto count = [&](Severity severity, const char* name) {
    const auto number = std::ranges::count(findings, severity, &Finding::severity);
    return counted(static_cast<std::uint64_t>(number), name);
  };
  say(fmt::format("{}, {}, {}", count(Severity::error, "error"),
                  count(Severity::warning, "warning"), count(Severity::information, "note")));
}

}  // namespace

int run_doctor(const Config& config, const Backends& backends, OutputFormat output) {
  const Settings& settings = config.settings;
  std::vector<Finding> findings =
      look_at_store(settings, backends.stores.at(scheme_of(settings.store.url)));
  if (settings.publisher.url.empty()) {
    say("no broker is configured; only the store was looked at");
  } else {
    const auto& publisher = backends.publishers.at(scheme_of(settings.publisher.url));
    append(findings, look_at_broker(settings, publisher));
    add_lease_term(settings, findings);
  }
  complete_commands(findings, config.input);
  std::ranges::stable_sort(findings, std::greater{}, &Finding::severity);
  print(output == OutputFormat::table ? findings_table(findings)
                                      : dump(to_json(findings), 2) + "\n");
  tell_summary(findings);
  return exit_code_of(findings);
}

int check_schema(const Config& config, const Backends& backends) {
  const auto& settings = config.settings.store;
  const auto& store = backends.stores.at(scheme_of(settings.url));
  const auto answer = store.check_schema(settings);
  if (!answer.ok()) return tell_failure(answer);
  for (const std::string& statement : answer.value.missing) print(statement + "\n");
  if (answer.value.missing.empty() && answer.value.table_usable) {
    say("the schema is as this program needs it");
    return kDone;
  }
  say("the schema is not as this program needs it; the statements are on stdout");
  return kConflict;
}

}  // namespace outbox
