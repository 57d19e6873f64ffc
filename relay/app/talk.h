// How commands speak: data on stdout, talk on stderr.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "relay/app/commands.h"

namespace outbox {

// A line on stderr, with the program's name. The text must be fit to be shown.
void say(const std::string& text);

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

// How far something has come, on a terminal: one line that is written over. Nothing elsewhere.
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
  bool shown_ = false;
};

}  // namespace outbox
