#include "relay/app/talk.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <utility>

namespace outbox {

void say(const std::string& text) { std::fputs(("outbox-relay: " + text + "\n").c_str(), stderr); }

void tell_limit(std::size_t found, std::size_t limit) {
  if (found == limit) say(fmt::format("there may be more than {}: see --limit", limit));
}

bool tell_missing(const char* noun, const std::set<std::string>& ids) {
  std::vector<std::string> names;
  for (const auto& id : ids) names.push_back(printable(id));
  if (!ids.empty()) say(fmt::format("no such {}: {}", noun, fmt::join(names, ", ")));
  return !ids.empty();
}

int refuse(const std::vector<Problem>& problems) {
  std::fputs(("outbox-relay: " + describe(problems)).c_str(), stderr);
  return kBadConfiguration;
}

void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

std::unique_ptr<OutboxDesk> open_desk(const Config& config, const Backends& backends) {
  const auto& settings = config.settings.store;
  return backends.stores.at(scheme_of(settings.url)).open_desk(settings);
}

std::string dump(const nlohmann::ordered_json& json, int indent) {
  return json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void print_json(const std::vector<nlohmann::ordered_json>& objects, OutputFormat output) {
  if (output == OutputFormat::jsonl) {
    for (const auto& object : objects) print(dump(object, -1) + "\n");
    return;
  }
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const auto& object : objects) all.push_back(object);
  print(dump(all, 2) + "\n");
}

namespace {

// In characters: all but the continuation bytes of UTF-8.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char letter) { return (static_cast<unsigned char>(letter) & 0xc0U) != 0x80U; }));
}

}  // namespace

void print_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t column = 0; column < row.size(); ++column) {
      widths[column] = std::max(widths[column], width_of(row[column]));
    }
  }
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t column = 0; column + 1 < row.size(); ++column) {
      line += row[column] + std::string(widths[column] - width_of(row[column]) + 2, ' ');
    }
    print(line + row.back() + "\n");
  }
}

// Only a plain yes is one.
std::optional<int> refusal(bool yes, const std::string& question) {
  if (yes) return std::nullopt;
  if (isatty(STDIN_FILENO) == 0) {
    say("there is no terminal to ask on; look first with --dry-run, then say --yes");
    return kUsage;
  }
  std::fputs((question + " [y/N] ").c_str(), stderr);
  std::string answer;
  std::getline(std::cin, answer);
  if (answer == "y" || answer == "yes") return std::nullopt;
  say("nothing was changed");
  return kFailed;
}

std::string counted(std::uint64_t count, const std::string& noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

ProgressLine::ProgressLine(std::string verb, std::uint64_t total)
    : verb_(std::move(verb)), total_(total), terminal_(isatty(STDERR_FILENO) != 0) {}

ProgressLine::~ProgressLine() {
  // What came of it is said by another line.
  if (shown_ > 0) std::fputs(("\r" + std::string(shown_, ' ') + "\r").c_str(), stderr);
}

void ProgressLine::show(std::uint64_t done) {
  if (!terminal_ || done >= total_) return;
  const std::string line = fmt::format("{} {} of {}", verb_, done, total_);
  shown_ = line.size();
  std::fputs(("\r" + line).c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace outbox
