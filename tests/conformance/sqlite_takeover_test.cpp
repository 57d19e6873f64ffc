// How rows move from a relay that has died, and only from one.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include "tests/conformance/sqlite_fixture.h"

namespace outbox::conformance {
namespace {

using namespace std::chrono_literals;
using Ids = std::vector<std::string>;

// A relay in a process of its own, which leases one row and then does nothing.
class OtherProcess {
 public:
  explicit OtherProcess(SqliteFixture& fixture) {
    fixture.close_application();
    std::array<int, 2> leased{};
    REQUIRE(::pipe(leased.data()) == 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      Client relay(fixture);
      const char answer = relay.lease(1).leased.size() == 1 ? 'y' : 'n';
      if (::write(leased[1], &answer, 1) != 1) ::_exit(1);
      while (true) ::pause();
    }
    ::close(leased[1]);
    char answer = 0;
    const auto length = ::read(leased[0], &answer, 1);
    ::close(leased[0]);
    REQUIRE(length == 1);
    REQUIRE(answer == 'y');
  }
  ~OtherProcess() { kill(); }

  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
};

std::filesystem::path only_lock_file(const SqliteFixture& fixture) {
  std::filesystem::path found;
  for (const auto& file : std::filesystem::directory_iterator(fixture.folder())) {
    if (file.path().extension() != ".lock") continue;
    REQUIRE(found.empty());
    found = file.path();
  }
  REQUIRE_FALSE(found.empty());
  return found;
}

TEST_CASE("the rows of a killed relay move at once") {
  SqliteFixture fixture;
  fixture.insert({.id = "a"});
  OtherProcess victim(fixture);
  Client relay(fixture);
  CHECK(committed(relay.turn()).leased.empty());
  victim.kill();
  fixture.advance(300ms);
  const Turn turn = committed(relay.turn());
  CHECK(turn.taken_over == 1);
  REQUIRE(ids_of(turn) == Ids{"a"});
  CHECK(turn.leased[0].history.outcome_unknown);
  CHECK(fixture.number("SELECT count(*) FROM outbox_relay_incarnations") == 1);
  only_lock_file(fixture);  // the dead relay's is gone, this one's is there
}

TEST_CASE("a relay that lives but is silent keeps its rows until its term ends") {
  SqliteFixture fixture;
  fixture.insert({.id = "a"});
  OtherProcess silent(fixture);
  Client relay(fixture);
  for (int i = 0; i < 29; ++i) {
    fixture.advance(1s);
    CHECK(committed(relay.turn()).leased.empty());
  }
  fixture.advance(2s);
  const Turn turn = committed(relay.turn());
  CHECK(ids_of(turn) == Ids{"a"});
  // It may not have crashed: that counts nothing against the row.
  CHECK(fixture.number("SELECT takeovers FROM outbox_relay_rows") == 0);
}

TEST_CASE("a missing lock file proves nothing: the term is waited for") {
  SqliteFixture fixture;
  fixture.insert({.id = "a"});
  OtherProcess victim(fixture);
  std::filesystem::remove(only_lock_file(fixture));
  victim.kill();
  Client relay(fixture);
  CHECK(committed(relay.turn()).leased.empty());
  fixture.advance(31s);
  CHECK(ids_of(committed(relay.turn())) == Ids{"a"});
}

TEST_CASE("another file in the lock file's place proves nothing") {
  SqliteFixture fixture;
  fixture.insert({.id = "a"});
  OtherProcess silent(fixture);
  const auto lock = only_lock_file(fixture);
  std::filesystem::rename(lock, lock.string() + ".away");
  std::filesystem::copy_file(lock.string() + ".away", lock);
  Client relay(fixture);
  CHECK(committed(relay.turn()).leased.empty());
  fixture.advance(1s);
  CHECK(committed(relay.turn()).leased.empty());
}

TEST_CASE("leases of an earlier boot are void, unless somebody visibly holds the lock") {
  SqliteFixture fixture;
  fixture.insert({.id = "a"});
  Client before(fixture);
  committed(before.turn());
  fixture.boot_id = "boot-two";
  Client relay(fixture);
  CHECK(committed(relay.turn()).leased.empty());
  before.die();
  std::filesystem::remove(only_lock_file(fixture));
  fixture.advance(1s);
  CHECK(ids_of(committed(relay.turn())) == Ids{"a"});
}

TEST_CASE("a late confirmation leaves no lease behind") {
  SqliteFixture fixture;
  fixture.insert({.id = "a"});
  Client slow(fixture);
  Client other(fixture);
  const Turn leased = committed(slow.turn());
  fixture.advance(31s);
  REQUIRE(committed(other.turn()).leased.size() == 1);
  committed(slow.settle({delivered(leased.leased.at(0))}));
  CHECK(fixture.number("SELECT count(*) FROM outbox_relay_leases") == 0);
}

TEST_CASE("a retired relay leaves nothing behind") {
  SqliteFixture fixture;
  fixture.insert({.id = "a"});
  Client relay(fixture);
  committed(relay.turn());
  relay.store().retire();
  CHECK(fixture.number("SELECT count(*) FROM outbox_relay_incarnations") == 0);
  CHECK(fixture.number("SELECT count(*) FROM outbox_relay_leases") == 0);
  for (const auto& file : std::filesystem::directory_iterator(fixture.folder())) {
    CHECK(file.path().extension() != ".lock");
  }
}

TEST_CASE("a relay that goes on after retire() shows a sign of life again") {
  SqliteFixture fixture;
  fixture.insert({.id = "a"});
  Client relay(fixture);
  committed(relay.turn());
  relay.store().retire();
  REQUIRE(ids_of(committed(relay.turn())) == Ids{"a"});
  CHECK(std::filesystem::exists(only_lock_file(fixture)));
  relay.die();
  Client other(fixture);
  CHECK(ids_of(committed(other.turn())) == Ids{"a"});
}

TEST_CASE("the end of another relay rings the bell, and its rows move without a wait") {
  SqliteFixture fixture;
  fixture.insert({.id = "a"});
  OtherProcess victim(fixture);
  Client relay(fixture);
  CHECK(committed(relay.turn()).leased.empty());
  victim.kill();
  const auto deadline = std::chrono::steady_clock::now() + 10s;
  Ids ids;
  while (ids.empty() && std::chrono::steady_clock::now() < deadline) {
    ids = ids_of(committed(relay.turn()));
    ::usleep(1000);
  }
  CHECK(ids == Ids{"a"});
}

TEST_CASE("take-overs of many leases are spread over turns") {
  SqliteFixture fixture;
  for (int i = 0; i < 1200; ++i) fixture.insert({.id = "evt-" + std::to_string(i)});
  Client victim(fixture);
  victim.request.limit = 2000;
  const std::size_t leased = committed(victim.turn()).leased.size();
  REQUIRE(leased > 1000);
  victim.die();
  Client relay(fixture);
  relay.request.limit = 0;
  std::size_t taken = 0;
  int turns = 0;
  while (taken < leased && turns < 10) {
    fixture.advance(1s);
    taken += committed(relay.turn()).taken_over;
    ++turns;
  }
  CHECK(taken == leased);
  CHECK(turns == 3);
  CHECK(fixture.number("SELECT count(*) FROM outbox_relay_leases") == 0);
}

}  // namespace
}  // namespace outbox::conformance
