// init, validate, print-config, version.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "relay/app/commands.h"
#include "relay/app/config_reload.h"
#include "relay/app/config_schema.h"
#include "relay/app/config_yaml.h"
#include "relay/app/exit_codes.h"
#include "relay/app/operations.h"
#include "relay/app/printable.h"
#include "relay/app/talk.h"
#include "relay/app/units.h"
#include "relay/retry_policy.h"

namespace outbox {
namespace {

std::string ladder_text(const RetryOptions& retry) {
  const RetryPolicy policy(retry);
  std::vector<std::string> later;
  for (const auto interval : retry.redelivery_intervals) later.push_back(format_duration(interval));
  std::string text = fmt::format(
      "Retry ladder: {} attempts, waits from {} by a factor of {} up to {}", retry.max_attempts,
      format_duration(retry.base_delay), retry.factor, format_duration(retry.max_delay));
  text += later.empty()
              ? std::string("; no redeliveries.\n")
              : fmt::format("; then one more after each of {}.\n", fmt::join(later, ", "));
  text += fmt::format(
      "  A message that keeps failing is a dead letter after {} counted failures, at most {} after "
      "the first.\n",
      policy.attempts_to_death(), about_duration(policy.span()));
  text += retry.outage_guard
              ? "  Failures while the broker is down don't count: an outage buries nothing.\n"
              : "  The outage guard is off: a long outage of the broker buries messages.\n";
  return text;
}

std::string duplicates_text(const Settings& settings) {
  const Duration span = RetryPolicy(settings.relay.retry).span();
  const Duration window = span + settings.relay.lease_term + settings.relay.publish_timeout;
  return fmt::format(
      "Duplicates: a message may arrive again up to {} after it first did, plus the length of any "
      "outage in between; a redrive opens the window again. Consumers drop repeats by id.\n",
      about_duration(window));
}

int print_grants(const StoreSettings& settings, const StoreBackend& store,
                 const std::string& role) {
  if (!store.grants) {
    say(fmt::format(
        "{}: databases have no roles: who may read and write the file may relay from it",
        scheme_of(settings.url)));
    return kFailed;
  }
  const Answer<std::string> statements = store.grants(settings, role);
  if (!statements.ok()) return tell_failure(statements);
  print(statements.value);
  return kDone;
}

}  // namespace

int init_outbox(const Config& config, const Backends& backends, const InitOptions& options) {
  const auto& settings = config.settings.store;
  const StoreBackend& store = backends.stores.at(scheme_of(settings.url));
  if (options.check) return check_schema(config, backends);
  if (options.grants) return print_grants(settings, store, options.role);
  if (!options.apply) {
    print(store.ddl(settings));
    return kDone;
  }
  const std::string error = store.apply_ddl(settings);
  if (!error.empty()) {
    say(printable_sentence(error));
    const bool newer = store.check_schema && store.check_schema(settings).newer;
    return newer ? kConflict : kFailed;
  }
  say(fmt::format("the outbox {} and the relay's tables are there: {}",
                  printable_sentence(settings.table),
                  printable_sentence(redacted_url(settings.url))));
  return kDone;
}

int validate(const Config& config) {
  for (const auto& warning : config.warnings) say("note: " + warning);
  print("The configuration is valid.\n");
  print(ladder_text(config.settings.relay.retry));
  print(duplicates_text(config.settings));
  return kDone;
}

int print_config(const Config& config, const Backends& backends,
                 const PrintConfigOptions& options) {
  if (options.schema) {
    print(config_schema());
    return kDone;
  }
  if (options.defaults) {
    ConfigInput nothing;
    nothing.file.clear();
    nothing.needs_store = false;
    nothing.needs_broker = false;
    print(to_yaml(load_config(nothing, backends), options.sources));
    return kDone;
  }
  if (!config.usable()) return refuse(config.problems);
  print(options.digest ? digest_of(config) + "\n" : to_yaml(config, options.sources));
  return kDone;
}

int print_version(const Backends& backends, bool verbose) {
  print(fmt::format("outbox-relay {}\n", OUTBOX_VERSION));
  if (!verbose) return kDone;
  std::vector<std::string> stores;
  std::vector<std::string> publishers;
  for (const auto& [scheme, backend] : backends.stores) stores.push_back(scheme + ":");
  for (const auto& [scheme, backend] : backends.publishers) publishers.push_back(scheme + ":");
  print(fmt::format("databases: {}\n", fmt::join(stores, " ")));
  print(fmt::format("brokers: {}\n", fmt::join(publishers, " ")));
  return kDone;
}

}  // namespace outbox
