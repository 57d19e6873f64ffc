#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "relay/app/commands.h"
#include "relay/app/exit_codes.h"
#include "relay/app/printable.h"
#include "relay/app/talk.h"

namespace outbox {
namespace {

constexpr std::size_t kKeyBytes = 30;

// 2026-11-30T18:42:00Z: a column has no room for more.
std::string to_the_second(const std::string& time) {
  if (time.empty()) return "-";
  const auto point = time.find('.');
  return point == std::string::npos ? printable(time) : printable(time.substr(0, point)) + "Z";
}

nlohmann::ordered_json to_json(const DeadLetter& letter) {
  return {{"id", letter.id},
          {"eventType", letter.event_type},
          {"orderingKey", letter.ordering_key},
          {"reason", letter.reason},
          {"attempts", letter.attempts},
          {"lastError", letter.last_error},
          {"occurredOn", letter.occurred_on},
          {"diedOn", letter.died_on}};
}

void print_letters(const std::vector<DeadLetter>& letters, OutputFormat output) {
  if (output != OutputFormat::table) {
    std::vector<nlohmann::ordered_json> objects;
    objects.reserve(letters.size());
    for (const auto& letter : letters) objects.push_back(to_json(letter));
    return print_json(objects, output);
  }
  // A key that no letter has takes no room; when the events occurred, JSON tells.
  const bool keyed = std::ranges::any_of(
      letters, [](const DeadLetter& letter) { return !letter.ordering_key.empty(); });
  std::vector<std::vector<std::string>> rows = {
      {"ID", "EVENT TYPE", "REASON", "DIED ON", "ATTEMPTS", "LAST ERROR"}};
  for (const auto& letter : letters) {
    rows.push_back({printable(letter.id), printable(letter.event_type, 60),
                    printable(letter.reason), to_the_second(letter.died_on),
                    fmt::format("{}", letter.attempts), printable(letter.last_error, 120)});
  }
  for (std::size_t index = 0; keyed && index < rows.size(); ++index) {
    const std::string key =
        index == 0 ? "KEY" : printable(letters[index - 1].ordering_key, kKeyBytes);
    rows[index].insert(rows[index].begin() + 2, key);
  }
  print_table(rows);
}

constexpr const char* kNoun = "dead letter";

// What may be done to dead letters, in words.
struct Deed {
  const char* ask;   // "Redrive"
  const char* done;  // "redriven"
  const char* reason;
  Answer<std::uint64_t> (OutboxDesk::*act)(const DeadLetterFilter&, const std::string&,
                                           const Progress&);
};

constexpr Deed kRedrive{"Redrive", "redriven", "redriven by command", &OutboxDesk::redrive};
constexpr Deed kDiscard{"Discard for good", "discarded", "discarded by command",
                        &OutboxDesk::discard};

void print_done(const Deed& deed, std::uint64_t count, OutputFormat output) {
  print(output == OutputFormat::table ? fmt::format("{} {}\n", count, deed.done)
                                      : dump({{deed.done, count}}, -1) + "\n");
}

int act(OutboxDesk& desk, const Deed& deed, const DeadLetterOptions& options, std::size_t expected,
        bool missing) {
  const std::string reason = options.reason.empty() ? deed.reason : options.reason;
  Answer<std::uint64_t> acted;
  {
    ProgressLine line(deed.done, expected);
    acted = (desk.*deed.act)(options.filter, reason, [&](std::uint64_t done) {
      line.show(done);
      return true;
    });
  }
  print_done(deed, acted.value, options.output);
  if (!acted.ok()) {
    say(printable_sentence(acted.error));
    return acted.value > 0 ? kPartlyDone : kFailed;
  }
  if (acted.value == 0 && expected > 0) {
    say(fmt::format("nothing was {}: somebody else was faster", deed.done));
    return kConflict;
  }
  tell_limit(acted.value, options.filter.limit);
  return missing || acted.value < expected ? kPartlyDone : kDone;
}

int treat(const Config& config, const Backends& backends, const DeadLetterOptions& options,
          const Deed& deed) {
  const auto desk = open_desk(config, backends);
  const auto letters = desk->dead_letters(options.filter);
  if (!letters.ok()) return tell_failure(letters);
  const bool missing = tell_missing(kNoun, missing_ids(options.filter.ids, letters.value));
  if (letters.value.empty()) {
    if (missing) return kNotFound;
    if (!options.dry_run) print_done(deed, 0, options.output);
    say("no dead letter matches");
    return kDone;
  }
  if (options.dry_run) {
    print_letters(letters.value, options.output);
    tell_limit(letters.value.size(), options.filter.limit);
    say(fmt::format("{} would be {}; nothing was changed", letters.value.size(), deed.done));
    return missing ? kNotFound : kDone;
  }
  const auto refused = refusal(
      options.yes, fmt::format("{} {} of {}?", deed.ask, counted(letters.value.size(), kNoun),
                               printable(redacted_url(config.settings.store.url))));
  if (refused) return *refused;
  return act(*desk, deed, options, letters.value.size(), missing);
}

}  // namespace

int list_dead_letters(const Config& config, const Backends& backends,
                      const DeadLetterOptions& options) {
  const auto desk = open_desk(config, backends);
  const auto letters = desk->dead_letters(options.filter);
  if (!letters.ok()) return tell_failure(letters);
  print_letters(letters.value, options.output);
  tell_limit(letters.value.size(), options.filter.limit);
  return tell_missing(kNoun, missing_ids(options.filter.ids, letters.value)) ? kNotFound : kDone;
}

int redrive_dead_letters(const Config& config, const Backends& backends,
                         const DeadLetterOptions& options) {
  return treat(config, backends, options, kRedrive);
}

int discard_dead_letters(const Config& config, const Backends& backends,
                         const DeadLetterOptions& options) {
  const DeadLetterFilter& filter = options.filter;
  const bool chosen = !filter.ids.empty() || !filter.event_type.empty() || !filter.reason.empty();
  if (!chosen && !options.all) {
    say("discarding is for good: name ids, --event-type or --dead-reason, or say --all");
    return kUsage;
  }
  return treat(config, backends, options, kDiscard);
}

}  // namespace outbox
