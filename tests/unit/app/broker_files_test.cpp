// Files of the broker that turn bad while the relay runs.
#include "relay/app/broker_files.h"

#include <doctest/doctest.h>

#include <vector>

namespace outbox {
namespace {

class HandClock final : public Clock {
 public:
  Time now() const override { return now_; }
  void advance(Duration duration) { now_ += duration; }

 private:
  Time now_{};
};

struct World {
  World() {
    settings.broker = "main";
    settings.publisher.bearer_token_file = "token";
    backend.check = [this](const PublisherSettings&) {
      ++looks;
      return defects;
    };
  }

  void pass(BrokerFiles& files) {
    clock.advance(BrokerFiles::kEvery);
    files.on_time();
  }

  HandClock clock;
  Settings settings;
  PublisherBackend backend;
  std::vector<SettingDefect> defects;
  int looks = 0;
  std::vector<std::string> lines;
  Log log{{}, "test", [this](std::string_view line) { lines.emplace_back(line); }};
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("a file that turns bad is told once, and once when it is good again") {
  World world;
  BrokerFiles files(world.backend, world.settings, world.log, world.clock);
  world.pass(files);
  CHECK(world.lines.empty());
  world.defects = {{"bearerTokenFile", "the file token is empty", "token"},
                   {"tls.caFile", "ca.pem can't be loaded", "ca.pem"},
                   {"url", "is none", ""}};
  world.pass(files);
  world.pass(files);
  REQUIRE(world.lines.size() == 2);
  CHECK(contains(world.lines[0], "\"warn\""));
  CHECK(contains(world.lines[0], "\"path\":\"brokers.main.bearerTokenFile\""));
  CHECK(contains(world.lines[0], "\"file\":\"token\""));
  CHECK(contains(world.lines[0], "\"error\":\"the file token is empty\""));
  CHECK(contains(world.lines[0], "stays in use"));
  CHECK(contains(world.lines[1], "brokers.main.tls.caFile"));
  world.defects.erase(world.defects.begin());
  world.pass(files);
  REQUIRE(world.lines.size() == 3);
  CHECK(contains(world.lines[2], "\"info\""));
  CHECK(contains(world.lines[2], "brokers.main.bearerTokenFile"));
}

TEST_CASE("files are looked at now and then only, and never where there are none") {
  World world;
  BrokerFiles files(world.backend, world.settings, world.log, world.clock);
  CHECK(files.wait() == BrokerFiles::kEvery);
  files.on_time();
  CHECK(world.looks == 0);
  world.clock.advance(2 * BrokerFiles::kEvery);
  CHECK(files.wait() == Duration{0});
  files.on_time();
  files.on_time();
  CHECK(world.looks == 1);
  CHECK(files.wait() == BrokerFiles::kEvery);

  world.settings.publisher = {};
  BrokerFiles none(world.backend, world.settings, world.log, world.clock);
  CHECK_FALSE(none.wait());
  world.pass(none);
  CHECK(world.looks == 1);
}

}  // namespace
}  // namespace outbox
