// How commands speak: data on stdout, talk on stderr.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "relay/app/commands.h"
#include "relay/app/exit_codes.h"
#include "relay/app/printable.h"

namespace outbox {

// A line on stderr, with the program's name. The text must be fit to be shown.
void say(const std::string& text);

// Why there is no answer, on stderr. Returns the exit code for that.
template <class Value>
int tell_failure(const Answer<Value>& answer) {
  say(printable_sentence(answer.error));
  return failure_code(answer);
}

// That rows were left out, on stderr, if that may be.
void tell_limit(std::size_t found, std::size_t limit);

// The ids that were asked for and that no row has.
template <class Rows>
std::set<std::string> missing_ids(const std::vector<std::string>& ids, const Rows& rows) {
  std::set<std::string> missing(ids.begin(), ids.end());
  for (const auto& row : rows) missing.erase(row.id);
  return missing;
}

// Names them on stderr, if there are any. Returns whether there are.
bool tell_missing(const char* noun, const std::set<std::string>& ids);

// What is wrong with the configuration, on stderr. Returns the exit code for that.
int refuse(const std::vector<Problem>& problems);

// Data on stdout, without a line feed of its own.
void print(const std::string& text);

std::unique_ptr<OutboxDesk> open_desk(const Config& config, const Backends& backends);

// Rows hold what applications wrote: bytes that are no UTF-8 are shown as such. `indent` -1: one
// line.
std::string dump(const nlohmann::ordered_json& json, int indent);

// Objects as one JSON array or as lines. Not for OutputFormat::table.
void print_json(const std::vector<nlohmann::ordered_json>& objects, OutputFormat output);

// Columns beside each other. The cells must be fit to be shown.
void print_table(const std::vector<std::vector<std::string>>& rows);

// The terminal says yes, or --yes did. Otherwise why not, as an exit code.
std::optional<int> refusal(bool yes, const std::string& question);

// "3 dead letters"
std::string counted(std::uint64_t count, const std::string& noun);

// How far something has come, on a terminal: one line that is written over and gone in the end.
// Nothing elsewhere.
class ProgressLine {
 public:
  ProgressLine(std::string verb, std::uint64_t total);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(std::uint64_t done);

 private:
  const std::string verb_;
  const std::uint64_t total_;
  const bool terminal_;
  std::size_t shown_ = 0;  // characters
};

}  // namespace outbox
