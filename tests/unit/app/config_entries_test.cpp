// Entries of maps given by themselves, and secrets that are only stars.
#include <doctest/doctest.h>

#include <map>

#include "config_fixture.h"

namespace outbox {
namespace {

TEST_CASE("flags and variables set entries of a map, and leave the others as they are") {
  const std::string file =
      "store: {url: 'sqlite:a', columns: {id: Id, payload: Body}}\n"
      "brokers: {main: {url: 'null:', headers: {X-One: one}}}\n";
  const auto config = config_of(file,
                                {{"--set", "store.columns.id", "Key"},
                                 {"--set", "store.states.pending", "0"},
                                 {"--set", "brokers.main.headers.X-Two", "a: b"},
                                 {"--set", "brokers.main.headers.X.Y", "dots"}},
                                {{"OUTBOX_RELAY__STORE__COLUMNS__EVENTTYPE", "Kind"},
                                 {"OUTBOX_RELAY__STORE__STATES__PENDING", "covered by the flag"},
                                 {"OUTBOX_RELAY__STORE__STATES__DEADLETTERED", "9"}});
  REQUIRE_MESSAGE(config.usable(), describe(config.problems));
  using Map = std::map<std::string, std::string>;
  CHECK(config.settings.store.columns ==
        Map{{"id", "Key"}, {"payload", "Body"}, {"eventType", "Kind"}});
  CHECK(config.settings.store.states == Map{{"pending", "0"}, {"deadLettered", "9"}});
  CHECK(value_of(config, "brokers.main.headers").value.map ==
        Map{{"X-One", "one"}, {"X-Two", "a: b"}, {"X.Y", "dots"}});
}

TEST_CASE("an entry given beside its whole map joins it") {
  const auto config = config_of(
      kMinimal, {{"--set", "store.columns.id", "Key"}, {"--set", "store.columns", "{payload: B}"}});
  REQUIRE_MESSAGE(config.usable(), describe(config.problems));
  CHECK(config.settings.store.columns ==
        std::map<std::string, std::string>{{"id", "Key"}, {"payload", "B"}});
}

TEST_CASE("a key with dots is no path in a file, and the problem shows what to write") {
  const auto lines = lines_of(
      config_of(std::string(kMinimal) + "brokers.main.url: 'http://two'\nrelay: {a.b: 1}\n"));
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].find("brokers.main.url: a key must not have dots; write brokers: {main: {url: "
                      "...}}") != std::string::npos);
  CHECK(lines[1].find("relay.a.b: a key must not have dots; write a: {b: ...}") !=
        std::string::npos);
}

TEST_CASE("an unknown path below a setting or an unknown section is told without an empty list") {
  const auto lines = lines_of(config_of(
      kMinimal,
      {{"--set", "relay.batchSize.x", "1"},
       {"--set", "store.columns.", "1"},
       {"--set", "qqqq.wwww.zzzz", "1"}},
      {{"OUTBOX_RELAY__STORE__COLUMNS__", "1"}, {"OUTBOX_RELAY__STORE__COLUMNS__A__B", "1"}}));
  REQUIRE(lines.size() == 5);
  for (const auto& line : lines) {
    CAPTURE(line);
    CHECK(line.find("unknown") != std::string::npos);
    CHECK_FALSE(line.ends_with("has "));
  }
}

TEST_CASE("the stars that print-config shows for a secret are no secret") {
  const auto lines =
      lines_of(config_of("store: {url: 'sqlite:a', table: '***'}\n"
                         "brokers: {main: {url: 'https://example.com/a***?token=***',"
                         " headers: {X-Key: '***', X-Other: 'a***'}}}\n"));
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].find("brokers.main.url") != std::string::npos);
  CHECK(lines[1].find("brokers.main.headers: X-Key: *** stands for a secret") != std::string::npos);
  for (const auto& line : lines) CHECK(line.find("put the secret back") != std::string::npos);
  CHECK(config_of("store: {url: 'sqlite:a'}\nbrokers: {main: {url: 'https://a.b/***?x=***'}}\n")
            .usable());
}

}  // namespace
}  // namespace outbox
