// Random configurations: none may crash the program, each rejection says where and what to do, and
// what is accepted is printed so that it reads as the same again. Seeded: a case fails again.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "config_fixture.h"
#include "relay/app/config_keys.h"
#include "relay/app/config_yaml.h"
#include "relay/random.h"

namespace outbox {
namespace {

template <class List>
const auto& one_of(const List& list, Random& random) {
  return list[random.below(list.size())];
}

const std::vector<std::string> kValid = {
    kMinimal,
    "store:\n  url: sqlite:///data/app.db\n  table: events\nbrokers:\n  main:\n"
    "    url: https://events.example.com/inbox?token=hunter2\n    publishTimeout: 3s\n"
    "    headers:\n      X-Tenant: acme\nretry:\n  maxAttempts: 3\n"
    "  redeliveryIntervals: [1m, 2h]\nprofile: adr-087\n",
    "store: {url: 'sqlite:a', columns: {id: Id, eventType: 'Event \"Type\"'}, times: ticks}\n"
    "brokers: {other-one: {url: 'null:', connections: 2}}\n"
    "routes:\n  - match: {eventType: 'order.*'}\n    destination: 'orders/{key}'\n",
    "store: {url: 'sqlite:a'}\nbrokers: {main: {url: 'stdout:'}}\n"
    "retention: {processed: 0s, deadLettered: never, chunk: 7}\nmetrics: {eventTypes: [a, '$$']}\n"
    "log: {format: text, level: ${LEVEL:-warn}}\nhttp: {listen: '[::1]:80'}\n",
};

constexpr std::array<std::string_view, 34> kValues = {"",
                                                      "0",
                                                      "1",
                                                      "-1",
                                                      "50",
                                                      "1e3",
                                                      "0.5",
                                                      "007",
                                                      "30s",
                                                      "1h30m",
                                                      "10",
                                                      "64MiB",
                                                      "4KB",
                                                      "never",
                                                      "true",
                                                      "yes",
                                                      "null",
                                                      "~",
                                                      "none",
                                                      "key",
                                                      "adr-087",
                                                      "[]",
                                                      "[a]",
                                                      "[1s, 2]",
                                                      "{}",
                                                      "{a: b}",
                                                      "{a: [b]}",
                                                      "${HOME}",
                                                      "${NO}",
                                                      "$$x",
                                                      "\"\\u200e\\n\"",
                                                      "'it''s'",
                                                      "sqlite:x",
                                                      "https://u:p@h/"};

const std::vector<std::string> kNames = {"url",     "table",   "relay",  "store", "brokers", "main",
                                         "tls",     "headers", "routes", "match", "<<",      "x y",
                                         "timeout", "Retry",   "",       "a.b",   "password"};

std::string random_name(Random& random) {
  if (random.chance(0.4)) return one_of(kNames, random);
  const auto segments = split(one_of(config_keys(), random).path, ".");
  return std::string(one_of(segments, random));
}

std::string quoted_name(const std::string& name) {
  return name.empty() || name == "*" ? "\"" + name + "\"" : name;
}

// A random tree below a section, most of whose names are right.
std::string random_tree(const std::string& section, int depth, Random& random) {
  std::string text;
  const auto names = names_below(section);
  const int count = static_cast<int>(random.below(4)) + (depth == 0 ? 1 : 0);
  for (int index = 0; index < count; ++index) {
    const bool known = !names.empty() && random.chance(0.85);
    const std::string name = known ? one_of(names, random) : random_name(random);
    const std::string below = section.empty() ? name : section + "." + name;
    text += std::string(static_cast<std::size_t>(2 * depth), ' ') + quoted_name(name) + ":";
    const bool deeper = depth < 4 && (is_section(below) || random.chance(0.05));
    if (deeper && random.chance(0.9)) {
      text += "\n" + random_tree(below, depth + 1, random);
    } else {
      text += " " + std::string(one_of(kValues, random)) + "\n";
    }
  }
  return text;
}

std::string mutated(std::string text, Random& random) {
  constexpr std::string_view kBytes = " \n:-{}[]'\"#&*!|>%@$,?aZ09\t";
  const auto times = 1 + random.below(6);
  for (std::uint64_t round = 0; round < times && !text.empty(); ++round) {
    const auto at = random.below(text.size());
    switch (random.below(5)) {
      case 0:
        text.erase(at, 1 + random.below(8));
        break;
      case 1:
        text.insert(at, 1, kBytes[random.below(kBytes.size())]);
        break;
      case 2:
        text[at] = kBytes[random.below(kBytes.size())];
        break;
      case 3:
        text.insert(at, text.substr(random.below(text.size()), random.below(40)));
        break;
      default:
        text.insert(at, one_of(kValues, random));
        break;
    }
  }
  return text;
}

std::string random_path(Random& random) {
  const auto& key = one_of(config_keys(), random);
  std::string path = concrete_path(key.path, random.chance(0.9) ? "main" : "b2");
  if (random.chance(0.1)) path = mutated(path, random);
  return path;
}

struct Case {
  std::string text;
  std::vector<FlagValue> flags;
  Environment environment;
};

std::string random_number(std::string_view low, std::string_view high, Random& random) {
  const auto least = std::stoull(std::string(low));
  const auto room = std::stoull(std::string(high)) - least;
  return std::to_string(least + random.below(std::min<std::uint64_t>(room, 90) + 1));
}

// Some value that the key takes; none of those that contradict others.
std::string fitting_value(const ConfigKey& key, Random& random) {
  constexpr std::array<std::string_view, 5> kTexts = {"plain", "\"with \\\"quotes\\\"\"", "'# no'",
                                                      "a/b:c", "'it''s ${HOME}'"};
  switch (key.kind) {
    case ValueKind::text:
      return std::string(one_of(kTexts, random));
    case ValueKind::choice:
      return one_of(split(key.choices, "|"), random);
    case ValueKind::boolean:
      return random.chance(0.5) ? "true" : "false";
    case ValueKind::count:
      return random_number(key.low, key.high, random);
    case ValueKind::retention:
      return random.chance(0.3) ? "never" : std::to_string(random.below(90)) + "d12h";
    case ValueKind::texts:
      return fmt::format("[{}, {}]", one_of(kTexts, random), one_of(kTexts, random));
    case ValueKind::text_map:
    case ValueKind::secrets:
      return fmt::format("{{id: {}, 'x y': {}}}", one_of(kTexts, random), one_of(kTexts, random));
    case ValueKind::routes:
      return "[{match: {eventType: 'a.*'}, destination: '{key}/$$'}]";
    case ValueKind::address:
      return "127.0.0.1:" + std::to_string(random.below(65536));
    case ValueKind::number:
    case ValueKind::duration:
    case ValueKind::size:
    case ValueKind::durations:
    case ValueKind::url:
      return std::string(key.fallback);
  }
  return {};
}

std::string fitting_text(Random& random) {
  std::map<std::string, std::string> sections;
  std::string broker = "    url: 'https://h/?sig=hunter2'\n";
  for (const auto& key : config_keys()) {
    const auto segments = split(key.path, ".");
    if (random.chance(0.6) || key.kind == ValueKind::url || key.path == "brokers.*.envelope") {
      continue;
    }
    std::string value = fitting_value(key, random);
    if (value.empty()) value = "\"\"";
    const std::string line = fmt::format("{}: {}\n", segments.back(), value);
    if (segments.size() == 1) sections[segments[0]] = " " + value + "\n";
    if (segments.size() == 2) sections[segments[0]] += "  " + line;
    if (segments.size() == 3) broker += "    " + line;
  }
  std::string text = "brokers:\n  main:\n" + broker;
  sections["store"] += "  url: sqlite:a\n";
  for (const auto& [section, lines] : sections) {
    text += section + ":" + (lines.starts_with("  ") ? "\n" : "") + lines;
  }
  return text;
}

Case random_case(Random& random) {
  Case one;
  if (random.chance(0.3)) return {fitting_text(random), {}, {{"HOME", "/root"}}};
  one.text = random.chance(0.5)   ? mutated(one_of(kValid, random), random)
             : random.chance(0.5) ? std::string(kMinimal) + random_tree("", 0, random)
                                  : random_tree("", 0, random);
  if (random.chance(0.3)) {
    const std::string value(one_of(kValues, random));
    one.flags.push_back({"--set", random_path(random), value});
  }
  if (random.chance(0.3)) {
    one.environment.emplace(variable_of(random_path(random)), one_of(kValues, random));
  }
  if (random.chance(0.5)) one.environment.emplace("HOME", "/root");
  return one;
}

// Somebody who reads the line knows where to look.
bool has_place(const Problem& problem) {
  if (!problem.path.empty()) return true;
  return problem.origin.kind != Origin::Kind::fallback && !problem.origin.name.empty();
}

// The words of a suggestion: what to write, what is there, or which limit to keep.
bool has_suggestion(const Problem& problem) {
  constexpr std::array<std::string_view, 18> kSigns = {
      "write", "must",        "did you mean", "use ",  "give",       "keep",
      "leave", "put ",        "not one of",   "has ",  "there is",   "run one",
      "name ", "the longest", "needs",        "check", "built with", "allowed are"};
  return std::ranges::any_of(
      kSigns, [&](const auto sign) { return problem.reason.find(sign) != std::string::npos; });
}

void check_round_trip(const Config& config) {
  const std::string printed = to_yaml(config, false);
  CAPTURE(printed);
  const Config again = config_of(printed);
  CHECK(printed.find("hunter2") == std::string::npos);
  // Stars in the place of a secret are an error, as they should be.
  if (printed.find("***") != std::string::npos) {
    for (const auto& line : lines_of(again)) {
      CHECK(line.find("put the secret back") != std::string::npos);
    }
    return;
  }
  CHECK(lines_of(again) == std::vector<std::string>{});
  REQUIRE(again.values.size() == config.values.size());
  for (std::size_t index = 0; index < config.values.size(); ++index) {
    CHECK(again.values[index].path == config.values[index].path);
    CHECK(again.values[index].text == config.values[index].text);
  }
  CHECK(to_yaml(again, false) == printed);
}

TEST_CASE("no configuration crashes, is refused without a place and an advice, or prints wrongly") {
  int accepted = 0;
  int refused = 0;
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Case one = random_case(random);
    CAPTURE(one.text);
    const Config config = config_of(one.text, one.flags, one.environment);
    for (const auto& problem : config.problems) {
      CAPTURE(describe(problem));
      CHECK(has_place(problem));
      CHECK(has_suggestion(problem));
    }
    if (config.usable()) check_round_trip(config);
    (config.usable() ? accepted : refused) += 1;
  }
  // Both happen often enough for the rest to mean something.
  CHECK(accepted >= 300);
  CHECK(refused >= 300);
}

TEST_CASE("each value that a key can have is printed so that it reads as the same") {
  const std::vector<std::string> nasty = {
      "it's", "say \"x\"", "back\\slash", "a: b", "# c", "tab\tend", "ünï", "$HOME", "${HOME}",
      "$$",   "true",      "null",        "~",    "1e3", "- x",      "x:",  " lead", "\u200e"};
  for (const auto& text : nasty) {
    CAPTURE(text);
    const auto config = config_of(
        kMinimal, {{"--set", "store.table", text}, {"--set", "brokers.main.username", text}});
    REQUIRE(config.usable());
    const auto again = config_of(to_yaml(config, true));
    REQUIRE(again.usable());
    CHECK(again.settings.store.table == text);
    CHECK(again.settings.publisher.username == text);
  }
}

TEST_CASE("the sources stand behind the values as comments") {
  const auto config = config_of(kMinimal, {{"--set", "relay.batchSize", "7"}});
  const std::string text = to_yaml(config, true);
  CHECK(text.find("relay:\n  batchSize: 7  # flag --set\n") != std::string::npos);
  CHECK(text.find("\nstore:\n") == std::string::npos);
  CHECK(text.starts_with("store:\n  url: sqlite:///data/app.db  # "));
  CHECK(text.find("    tls:\n      caFile: \"\"  # default\n") != std::string::npos);
}

}  // namespace
}  // namespace outbox
