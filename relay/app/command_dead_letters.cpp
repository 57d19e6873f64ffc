#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "relay/app/commands.h"
#include "relay/app/exit_codes.h"
#include "relay/app/printable.h"

namespace outbox {
namespace {

void say(const std::string& text) { std::fputs(("outbox-relay: " + text + "\n").c_str(), stderr); }

std::unique_ptr<OutboxDesk> open_desk(const Config& config, const Backends& backends) {
  const auto& settings = config.settings.store;
  return backends.stores.at(scheme_of(settings.url)).open_desk(settings);
}

nlohmann::json to_json(const DeadLetter& letter) {
  return {{"id", letter.id},
          {"eventType", letter.event_type},
          {"orderingKey", letter.ordering_key},
          {"reason", letter.reason},
          {"attempts", letter.attempts},
          {"lastError", letter.last_error},
          {"occurredOn", letter.occurred_on}};
}

// Rows hold what applications wrote: bytes that are no UTF-8 are shown as such.
std::string dump(const nlohmann::json& json, int indent) {
  return json.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

void print_table(const std::vector<DeadLetter>& letters) {
  const std::vector<std::string> titles = {"ID", "EVENT TYPE", "REASON", "ATTEMPTS", "LAST ERROR"};
  std::vector<std::vector<std::string>> rows = {titles};
  for (const auto& letter : letters) {
    rows.push_back({printable(letter.id), printable(letter.event_type, 60),
                    printable(letter.reason), fmt::format("{}", letter.attempts),
                    printable(letter.last_error, 120)});
  }
  std::vector<std::size_t> widths(titles.size());
  for (const auto& row : rows) {
    for (std::size_t column = 0; column < row.size(); ++column) {
      widths[column] = std::max(widths[column], row[column].size());
    }
  }
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t column = 0; column + 1 < row.size(); ++column) {
      line += fmt::format("{:<{}}  ", row[column], widths[column]);
    }
    std::fputs((line + row.back() + "\n").c_str(), stdout);
  }
}

void print_letters(const std::vector<DeadLetter>& letters, OutputFormat output) {
  switch (output) {
    case OutputFormat::table:
      return print_table(letters);
    case OutputFormat::jsonl:
      for (const auto& letter : letters) {
        std::fputs((dump(to_json(letter), -1) + "\n").c_str(), stdout);
      }
      return;
    case OutputFormat::json:
      break;
  }
  nlohmann::json all = nlohmann::json::array();
  for (const auto& letter : letters) all.push_back(to_json(letter));
  std::fputs((dump(all, 2) + "\n").c_str(), stdout);
}

// Asked-for ids that are no dead letters.
std::vector<std::string> missing_ids(const DeadLetterFilter& filter,
                                     const std::vector<DeadLetter>& letters) {
  std::vector<std::string> missing;
  for (const auto& id : filter.ids) {
    const bool found =
        std::ranges::any_of(letters, [&](const DeadLetter& letter) { return letter.id == id; });
    if (!found) missing.push_back(printable(id));
  }
  return missing;
}

// Asks on the terminal. Only a plain yes is one.
bool confirmed(std::size_t count, const std::string& url) {
  std::fputs(fmt::format("Redrive {} dead letter{} of {}? [y/N] ", count, count == 1 ? "" : "s",
                         printable(redacted_url(url)))
                 .c_str(),
             stderr);
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "yes";
}

// Why this must not be begun, or nothing.
std::optional<int> refusal(const DeadLetterOptions& options, std::size_t count,
                           const std::string& url) {
  if (options.yes) return std::nullopt;
  if (isatty(STDIN_FILENO) == 0) {
    say("there is no terminal to ask on; look first with --dry-run, then say --yes");
    return kUsage;
  }
  if (confirmed(count, url)) return std::nullopt;
  say("nothing was changed");
  return kFailed;
}

void print_redriven(std::uint64_t count, OutputFormat output) {
  const std::string text = output == OutputFormat::table ? fmt::format("{} redriven\n", count)
                                                         : dump({{"redriven", count}}, -1) + "\n";
  std::fputs(text.c_str(), stdout);
}

int redrive(OutboxDesk& desk, const DeadLetterOptions& options, std::size_t expected,
            bool missing) {
  const std::string reason = options.reason.empty() ? "redriven by command" : options.reason;
  const auto redriven = desk.redrive(options.filter, reason);
  print_redriven(redriven.value, options.output);
  if (!redriven.ok()) {
    say(printable_sentence(redriven.error));
    return redriven.value > 0 ? kPartlyDone : kFailed;
  }
  if (redriven.value == 0 && expected > 0) {
    say("nothing was redriven: somebody else was faster");
    return kConflict;
  }
  return missing || redriven.value < expected ? kPartlyDone : kDone;
}

}  // namespace

int list_dead_letters(const Config& config, const Backends& backends,
                      const DeadLetterOptions& options) {
  const auto desk = open_desk(config, backends);
  const auto letters = desk->dead_letters(options.filter);
  if (!letters.ok()) {
    say(printable_sentence(letters.error));
    return kNotReachable;
  }
  const auto missing = missing_ids(options.filter, letters.value);
  print_letters(letters.value, options.output);
  if (letters.value.size() == options.filter.limit) {
    say(fmt::format("there may be more than {}: see --limit", options.filter.limit));
  }
  if (missing.empty()) return kDone;
  say(fmt::format("no such dead letter: {}", fmt::join(missing, ", ")));
  return kNotFound;
}

int redrive_dead_letters(const Config& config, const Backends& backends,
                         const DeadLetterOptions& options) {
  const auto desk = open_desk(config, backends);
  const auto letters = desk->dead_letters(options.filter);
  if (!letters.ok()) {
    say(printable_sentence(letters.error));
    return kNotReachable;
  }
  const auto missing = missing_ids(options.filter, letters.value);
  if (!missing.empty()) say(fmt::format("no such dead letter: {}", fmt::join(missing, ", ")));
  if (letters.value.empty()) {
    if (!missing.empty()) return kNotFound;
    if (!options.dry_run) print_redriven(0, options.output);
    say("no dead letter matches");
    return kDone;
  }
  if (options.dry_run) {
    print_letters(letters.value, options.output);
    say(fmt::format("{} would be redriven; nothing was changed", letters.value.size()));
    return missing.empty() ? kDone : kNotFound;
  }
  const auto refused = refusal(options, letters.value.size(), config.settings.store.url);
  if (refused) return *refused;
  return redrive(*desk, options, letters.value.size(), !missing.empty());
}

}  // namespace outbox
