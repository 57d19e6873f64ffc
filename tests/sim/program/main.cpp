// outbox-sim: runs seeds of the simulated world, and prints one line for each that fails.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <stdexcept>
#include <string>

#include "tests/sim/model/world.h"

namespace {

using outbox::sim::Bug;
using outbox::sim::Report;
using outbox::sim::Scenario;

struct Arguments {
  std::uint64_t seed = 1;
  std::uint64_t count = 1;
  std::uint64_t failures_max = 20;
  std::string profile = "swarm";
  Bug bug = Bug::none;
  bool trace = false;
  std::set<std::string> muted;
};

constexpr const char* kUsage =
    "usage: outbox-sim [--seed N] [--count N] [--profile NAME] [--bug NAME] [--failures N] "
    "[--mute INVARIANT] [--trace]\n";

// The seed under way, for the line that an aborting check leaves behind.
volatile std::sig_atomic_t running = 0;
std::string replay_line;

void on_abort(int) {
  if (running != 0) std::fputs(replay_line.c_str(), stderr);
}

Bug bug_named(const std::string& name) {
  for (int i = 0; i < static_cast<int>(Bug::count_); ++i) {
    if (name == outbox::sim::name_of(static_cast<Bug>(i))) return static_cast<Bug>(i);
  }
  throw std::invalid_argument("unknown bug: " + name);
}

Arguments parse(int count, char** words) {
  Arguments arguments;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word == "--trace") {
      arguments.trace = true;
      continue;
    }
    if (i + 1 >= count) throw std::invalid_argument("what does " + word + " stand for?");
    const std::string value = words[++i];
    if (word == "--seed") {
      arguments.seed = std::stoull(value);
    } else if (word == "--count") {
      arguments.count = std::stoull(value);
    } else if (word == "--failures") {
      arguments.failures_max = std::stoull(value);
    } else if (word == "--profile") {
      arguments.profile = value;
    } else if (word == "--mute") {
      arguments.muted.insert(value);
    } else if (word == "--bug") {
      arguments.bug = bug_named(value);
    } else {
      throw std::invalid_argument("unknown option: " + word);
    }
  }
  return arguments;
}

int run_seeds(const Arguments& arguments) {
  std::uint64_t failures = 0;
  std::uint64_t events = 0;
  double virtual_seconds = 0;
  const auto begin = std::chrono::steady_clock::now();
  std::uint64_t done = 0;
  for (; done < arguments.count && failures < arguments.failures_max; ++done) {
    Scenario scenario = outbox::sim::draw(arguments.seed + done, arguments.profile);
    scenario.trace = arguments.trace;
    scenario.bug = arguments.bug;
    scenario.muted = arguments.muted;
    replay_line = "seed " + std::to_string(scenario.seed) +
                  ": broken invariant; replay: outbox-sim --profile " + arguments.profile +
                  " --seed " + std::to_string(scenario.seed) + " --trace\n";
    running = 1;
    const Report report = outbox::sim::run(scenario);
    running = 0;
    events += report.events;
    virtual_seconds += std::chrono::duration<double>(report.lasted).count();
    if (arguments.count == 1)
      std::printf("trace hash %016llx\n", static_cast<unsigned long long>(report.hash));
    if (!report.violation) continue;
    ++failures;
    std::printf("%s\n", outbox::sim::describe(scenario, report).c_str());
    std::fflush(stdout);
  }
  const double took =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::fprintf(stderr, "%llu seeds, %llu failed, %llu events, %.1f virtual hours in %.1f s\n",
               static_cast<unsigned long long>(done), static_cast<unsigned long long>(failures),
               static_cast<unsigned long long>(events), virtual_seconds / 3600, took);
  return failures == 0 ? 0 : 1;
}

}  // namespace

int main(int count, char** words) {
  std::signal(SIGABRT, on_abort);
  try {
    return run_seeds(parse(count, words));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "outbox-sim: %s\n%s", error.what(), kUsage);
    return 2;
  }
}
