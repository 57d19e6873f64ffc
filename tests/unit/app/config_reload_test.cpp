// A configuration read anew: what is taken over at once, what waits, what is told.
#include "relay/app/config_reload.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "config_fixture.h"
#include "relay/app/boot_clock.h"
#include "relay/app/config_reloader.h"
#include "tests/temporary_folder.h"

namespace outbox {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

using Paths = std::vector<std::string>;

ConfigChange change_between(const std::string& before, const std::string& after) {
  const auto running = config_of(std::string(kMinimal) + before);
  const auto fresh = config_of(std::string(kMinimal) + after);
  REQUIRE(running.usable());
  REQUIRE(fresh.usable());
  return take_over(running, fresh);
}

TEST_CASE("retry, retention, log, breaker, batchSize and pollInterval apply at once") {
  const auto change =
      change_between("",
                     "retry: {maxAttempts: 3}\nretention: {processed: 1h}\nlog: {level: debug}\n"
                     "breaker: {probes: 4}\nrelay: {batchSize: 7, pollInterval: 2s}\n");
  CHECK(change.applied == Paths{"relay.batchSize", "relay.pollInterval", "retry.maxAttempts",
                                "breaker.probes", "retention.processed", "log.level"});
  CHECK(change.restarting.empty());
  const auto& settings = change.in_force.settings;
  CHECK(settings.relay.retry.max_attempts == 3);
  CHECK(settings.relay.breaker.probes == 4);
  CHECK(settings.relay.batch_size == 7);
  CHECK(settings.relay.poll_interval == seconds{2});
  CHECK(settings.retention.processed == hours{1});
  CHECK(settings.log.level == LogLevel::debug);
  CHECK(value_of(change.in_force, "relay.batchSize").text == "7");
}

TEST_CASE("each other setting needs a restart and stays as it was") {
  for (const auto& key : config_keys()) {
    if (applies_at_once(key.path)) {
      const auto section = split(key.path, ".").front();
      const Paths live = {"retry", "breaker", "retention", "log", "relay"};
      CHECK(std::ranges::find(live, section) != live.end());
    }
  }
  const auto change =
      change_between("",
                     "relay: {leaseTerm: 1m, maxInFlight: 300}\nhttp: {listen: '127.0.0.1:0'}\n"
                     "audit: {attempts: all}\n");
  CHECK(change.applied.empty());
  CHECK(change.restarting ==
        Paths{"relay.maxInFlight", "relay.leaseTerm", "audit.attempts", "http.listen"});
  CHECK(change.in_force.settings.relay.lease_term == seconds{30});
  CHECK(value_of(change.in_force, "relay.leaseTerm").text == "30s");
}

TEST_CASE("a changed secret is noticed, though it is never shown") {
  const std::string before = "brokers: {main: {url: 'null:', headers: {A: one}}}\n";
  const std::string after = "brokers: {main: {url: 'null:', headers: {A: two}}}\n";
  const std::string store = "store: {url: 'sqlite:a'}\n";
  const auto change = take_over(config_of(store + before), config_of(store + after));
  CHECK(change.restarting == Paths{"brokers.main.headers"});
  CHECK(digest_of(config_of(store + before)) == digest_of(config_of(store + after)));
}

TEST_CASE("a broker of another name is told once, not with each of its settings") {
  const auto running = config_of("store: {url: 'sqlite:a'}\nbrokers: {one: {url: 'null:'}}\n");
  const auto fresh = config_of("store: {url: 'sqlite:a'}\nbrokers: {two: {url: 'null:'}}\n");
  CHECK(take_over(running, fresh).restarting == Paths{"brokers.one", "brokers.two"});
}

TEST_CASE("a profile is exchanged as a whole, with a restart") {
  const auto change = change_between("log: {level: warn}\n", "profile: adr-087\n");
  CHECK(change.applied == Paths{"log.level"});
  CHECK(std::ranges::find(change.restarting, "profile") != change.restarting.end());
  CHECK(std::ranges::find(change.restarting, "retry.baseDelay") != change.restarting.end());
  CHECK(change.in_force.settings.relay.retry.base_delay == seconds{1});
  CHECK(change.in_force.settings.relay.retry.outage_guard);
}

TEST_CASE("rows of a foreign table are not put at risk by a change that needs a restart") {
  const std::string broker = "brokers: {main: {url: 'null:'}}\n";
  const auto foreign = config_of(broker +
                                 "store: {url: 'sqlite:a', columns: {id: Id}}\n"
                                 "retention: {processed: never}\n");
  const auto own = config_of(broker + "store: {url: 'sqlite:a'}\n");
  REQUIRE(own.settings.retention.processed == hours{7 * 24});
  const auto change = take_over(foreign, own);
  CHECK(change.restarting == Paths{"store.columns"});
  CHECK_FALSE(change.in_force.settings.retention.processed.has_value());
}

TEST_CASE("the digest depends on settings, not on where they stand") {
  const auto plain = config_of(std::string(kMinimal) + "relay: {batchSize: 100}\n");
  CHECK(digest_of(plain) == digest_of(config_of(kMinimal)));
  CHECK(digest_of(plain) != digest_of(config_of(kMinimal, {{"--set", "relay.batchSize", "101"}})));
  CHECK(digest_of(plain).size() == 64);
}

// A reloader whose file the test changes.
struct ReloaderFixture {
  ReloaderFixture() {
    write(kMinimal);
    ConfigInput input;
    input.file = file();
    const Config config = load_config(input, backends);
    REQUIRE(config.usable());
    digest = digest_of(config);
    reloader.emplace(config, ConfigReloader::Parts{backends, log, metrics, clock},
                     [this](const Settings& settings) { applied.push_back(settings); });
  }

  std::string file() const { return folder.file("relay.yaml"); }
  void write(const std::string& text) const { folder.write("relay.yaml", text); }
  // What the main thread does until the change was read, or for so long.
  bool comes_round(Duration at_most = seconds{20}) {
    const auto end = clock.now() + at_most;
    const std::size_t before = lines.size();
    while (clock.now() < end && lines.size() == before) {
      reloader->on_readable();
      reloader->on_time();
      usleep(1000);
    }
    return lines.size() > before;
  }
  bool said(const std::string& text) const {
    return std::ranges::any_of(
        lines, [&](const auto& line) { return line.find(text) != std::string::npos; });
  }
  bool shows(const std::string& series) {
    return metrics.exposition().find("outbox_relay_" + series) != std::string::npos;
  }

  Backends backends = named_backends();
  std::vector<std::string> lines;
  Log log{{}, "test", [this](std::string_view line) { lines.emplace_back(line); }};
  BootClock clock;
  static MetricsOptions metrics_options() {
    MetricsOptions options;
    options.config_sha256 = "at-start";
    return options;
  }
  Metrics metrics{metrics_options(), clock};
  testing::TemporaryFolder folder;
  std::string digest;
  std::vector<Settings> applied;
  std::optional<ConfigReloader> reloader;
};

TEST_CASE_FIXTURE(ReloaderFixture, "a file that was written over is taken over by itself") {
  write(std::string(kMinimal) + "relay: {batchSize: 9}\n");
  REQUIRE(comes_round());
  REQUIRE(applied.size() == 1);
  CHECK(applied[0].relay.batch_size == 9);
  CHECK(said("configuration taken over"));
  CHECK(said("\"relay.batchSize\":\"9\""));
  CHECK(shows("config_last_reload_successful 1"));
  CHECK_FALSE(shows("config_info{sha256=\"" + digest));
  CHECK_FALSE(shows("config_info{sha256=\"at-start"));
}

TEST_CASE_FIXTURE(ReloaderFixture, "a file that was put in the place of the old one is read") {
  std::filesystem::rename(folder.write("new", std::string(kMinimal) + "log: {level: warn}\n"),
                          file());
  REQUIRE(comes_round());
  CHECK(applied.back().log.level == LogLevel::warn);
}

TEST_CASE_FIXTURE(ReloaderFixture, "a wrong file changes nothing, tells all, and shows") {
  write("store: {url: 'sqlite:a'}\nrelay: {batchSize: 0, leaseTerm: 10}\nretry: {x: 1}\n");
  REQUIRE(comes_round());
  CHECK(applied.empty());
  CHECK(said("\"problems\":4"));
  CHECK(said("relay.batchSize = \\\"0\\\": must be between 1 and 10000"));
  CHECK(said("relay.leaseTerm"));
  CHECK(said("retry.x"));
  CHECK(said("brokers.main.url"));
  CHECK(shows("config_last_reload_successful 0"));
  CHECK(shows("config_info{sha256=\"at-start"));
  SUBCASE("and the file as it was makes it good again") {
    write(kMinimal);
    REQUIRE(comes_round());
    CHECK(shows("config_last_reload_successful 1"));
    CHECK(shows("config_info{sha256=\"" + digest));
    CHECK(said("nothing to take over"));
  }
}

TEST_CASE_FIXTURE(ReloaderFixture, "a file that has gone is an error, not a wish for defaults") {
  std::filesystem::remove(file());
  REQUIRE(comes_round());
  CHECK(said("there is no such file"));
  CHECK(shows("config_last_reload_successful 0"));
}

TEST_CASE_FIXTURE(ReloaderFixture, "what needs a restart is told with its path, each on a line") {
  write(std::string(kMinimal) + "relay: {leaseTerm: 1m}\nhttp: {listen: '127.0.0.1:1'}\n");
  REQUIRE(comes_round());
  CHECK(
      said("\"msg\":\"needs restart\",\"path\":\"relay.leaseTerm\",\"in_force\":\"30s\","
           "\"in_file\":\"1m\""));
  CHECK(said("\"path\":\"http.listen\""));
  CHECK(said("configuration read again, its changes need a restart"));
  CHECK_FALSE(said("nothing to take over"));
  CHECK(shows("config_last_reload_successful 1"));
  CHECK(shows("config_info{sha256=\"" + digest));
}

TEST_CASE_FIXTURE(ReloaderFixture, "a change that needs a restart and is taken back is told") {
  write(std::string(kMinimal) + "relay: {leaseTerm: 1m}\nhttp: {listen: '127.0.0.1:1'}\n");
  REQUIRE(comes_round());
  lines.clear();
  write(std::string(kMinimal) + "relay: {leaseTerm: 1m}\n");
  REQUIRE(comes_round());
  CHECK(said("file agrees with what is in force\",\"path\":\"http.listen\""));
  CHECK(said("\"msg\":\"needs restart\",\"path\":\"relay.leaseTerm\""));
  CHECK_FALSE(said("in force\",\"path\":\"relay.leaseTerm\""));
  lines.clear();
  write(kMinimal);
  REQUIRE(comes_round());
  CHECK(said("file agrees with what is in force\",\"path\":\"relay.leaseTerm\""));
  CHECK_FALSE(said("needs restart"));
}

TEST_CASE_FIXTURE(ReloaderFixture, "the same file again is no news, unless somebody asked") {
  write(kMinimal);
  CHECK_FALSE(comes_round(ConfigReloader::kQuiet + milliseconds{300}));
  reloader->reload();
  CHECK(said("nothing to take over"));
  CHECK(applied.empty());
}

TEST_CASE_FIXTURE(ReloaderFixture, "a file that changes all the while is read all the same") {
  const auto end = clock.now() + seconds{20};
  for (int size = 1; applied.empty() && clock.now() < end; ++size) {
    write(std::string(kMinimal) + "relay: {batchSize: " + std::to_string(size % 90 + 1) + "}\n");
    reloader->on_readable();
    reloader->on_time();
    usleep(1000);
  }
  CHECK_FALSE(applied.empty());
}

TEST_CASE_FIXTURE(ReloaderFixture, "a file that is made anew is read once it has been written") {
  std::filesystem::remove(file());
  reloader->on_readable();
  {
    std::ofstream slow(file());
    slow << kMinimal << std::flush;
    // As it stands the file says that the default is wished for.
    CHECK_FALSE(comes_round(3 * ConfigReloader::kQuiet));
    slow << "relay: {batchSize: 9}\n";
  }
  REQUIRE(comes_round());
  REQUIRE(applied.size() == 1);
  CHECK(applied[0].relay.batch_size == 9);
}

TEST_CASE_FIXTURE(ReloaderFixture, "a link that is made to the file is read at once") {
  const std::string other = folder.write("other", std::string(kMinimal) + "log: {level: warn}\n");
  std::filesystem::remove(file());
  reloader->on_readable();
  SUBCASE("a symbolic one") { std::filesystem::create_symlink(other, file()); }
  SUBCASE("a hard one") { std::filesystem::create_hard_link(other, file()); }
  REQUIRE(comes_round(ConfigReloader::kWriting / 2));
  CHECK(applied.back().log.level == LogLevel::warn);
}

TEST_CASE_FIXTURE(ReloaderFixture, "another file in the folder is no reason to read") {
  folder.write("app.db", "x");
  reloader->on_readable();
  CHECK_FALSE(reloader->wait().has_value());
  write(kMinimal);
  reloader->on_readable();
  CHECK(reloader->wait().has_value());
}

// A ConfigMap as Kubernetes mounts it: relay.yaml -> ..data/relay.yaml, ..data -> ..1, and an
// update that exchanges ..data.
TEST_CASE("a ConfigMap's link that is exchanged is noticed, again and again") {
  namespace fs = std::filesystem;
  const testing::TemporaryFolder folder;
  const auto version = [&](int number) {
    const std::string name = "..version" + std::to_string(number);
    fs::create_directory(folder.file(name));
    folder.write(name + "/relay.yaml", std::to_string(number));
    fs::create_symlink(name, folder.file("..data_tmp"));
    fs::rename(folder.file("..data_tmp"), folder.file("..data"));
  };
  version(1);
  fs::create_symlink("..data/relay.yaml", folder.file("relay.yaml"));
  FileWatch watch(folder.file("relay.yaml"));
  CHECK_FALSE(watch.take_events());
  for (int number = 2; number < 5; ++number) {
    version(number);
    CHECK(watch.take_events());
    fs::remove_all(folder.file("..version" + std::to_string(number - 1)));
    watch.take_events();
    CHECK_FALSE(watch.take_events());
  }
}

TEST_CASE("what a linked file holds elsewhere is watched, too") {
  namespace fs = std::filesystem;
  const testing::TemporaryFolder folder;
  fs::create_directory(folder.file("real"));
  fs::create_symlink(folder.write("real/settings", "a"), folder.file("relay.yaml"));
  FileWatch watch(folder.file("relay.yaml"));
  folder.write("real/settings", "b");
  CHECK(watch.take_events());
}

TEST_CASE("a folder that is not there is not watched, and no error") {
  FileWatch watch("/no/such/folder/relay.yaml");
  CHECK_FALSE(watch.take_events());
  CHECK(watch.error() == "No such file or directory");
  CHECK(FileWatch("/tmp/relay.yaml").error().empty());
}

TEST_CASE("a secret's file is named by the configuration, not held by it") {
  const TemporaryFile secret("hunter2");
  const auto load = [&] {
    return config_of("store: {url: 'sqlite:a'}\nbrokers: {main: {url: 'null:', passwordFile: '" +
                     secret.path() + "', username: u}}\n");
  };
  const auto before = load();
  REQUIRE(before.usable());
  CHECK(before.settings.publisher.password_file == secret.path());
  for (const auto& value : before.values) CHECK(value.text.find("hunter2") == std::string::npos);
  std::ofstream(secret.path()) << "another";
  const auto after = load();
  CHECK(digest_of(after) == digest_of(before));
  CHECK(take_over(before, after).restarting.empty());
}

TEST_CASE("the log takes another level and format while it is used") {
  std::vector<std::string> lines;
  Log log({}, "i", [&](std::string_view line) { lines.emplace_back(line); });
  log.debug("unseen");
  log.set({LogFormat::text, LogLevel::debug});
  log.debug("seen");
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].find("msg=seen") != std::string::npos);
}

}  // namespace
}  // namespace outbox
