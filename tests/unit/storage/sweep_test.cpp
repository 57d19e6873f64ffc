#include "storage/mapping/sweep.h"

#include <doctest/doctest.h>

#include "storage/mapping/blocked_keys.h"
#include "storage/sqlite/pace.h"

namespace outbox::sqlite {
namespace {

using namespace std::chrono_literals;
using Start = Sweep::Start;

Time at(Duration time) { return Time(std::chrono::hours(1) + time); }

TEST_CASE("a sweep goes on until its end, and is looked at from the start once a second") {
  Sweep sweep;
  CHECK(sweep.begin(at(0s)) == Start::restart);
  CHECK(sweep.begin(at(0s)) == Start::resume);
  CHECK(sweep.begin(at(900ms)) == Start::resume);
  CHECK(sweep.begin(at(1s)) == Start::peek);
  CHECK(sweep.begin(at(1900ms)) == Start::resume);
  CHECK(sweep.begin(at(2s)) == Start::peek);
}

TEST_CASE("a sweep that passed little starts over at once when something has changed") {
  Sweep sweep;
  sweep.begin(at(0s));
  sweep.pass();
  sweep.reach_end();
  CHECK(sweep.begin(at(0s)) == Start::resume);
  sweep.note_change();
  CHECK(sweep.begin(at(0s)) == Start::restart);
}

TEST_CASE("a change during a sweep counts at its end") {
  Sweep sweep;
  sweep.begin(at(0s));
  sweep.note_change();
  CHECK(sweep.begin(at(0s)) == Start::resume);
  sweep.reach_end();
  CHECK(sweep.begin(at(0s)) == Start::restart);
}

TEST_CASE("a sweep without changes starts over after a second") {
  Sweep sweep;
  sweep.begin(at(0s));
  sweep.reach_end();
  CHECK(sweep.begin(at(999ms)) == Start::resume);
  CHECK(sweep.begin(at(1s)) == Start::restart);
}

TEST_CASE("a sweep that passed much starts over the more rarely, changes or not") {
  Sweep sweep;
  sweep.begin(at(0s));
  for (int i = 0; i < 100'000; ++i) sweep.pass();
  sweep.reach_end();
  sweep.note_change();
  CHECK(sweep.begin(at(3s)) == Start::resume);
  CHECK(sweep.begin(at(4s)) == Start::restart);
}

TEST_CASE("a blocked key holds back until its blocker is decided") {
  BlockedKeys keys;
  CHECK_FALSE(keys.holds_back("k", 5));
  keys.block("k", 3, 5);
  CHECK(keys.holds_back("k", 7));
  CHECK(keys.holds_back("k", 4));
  CHECK_FALSE(keys.holds_back("other", 7));
  CHECK_FALSE(keys.unblock(9).has_value());
  CHECK(keys.unblock(3) == 4);
  CHECK_FALSE(keys.holds_back("k", 7));
}

TEST_CASE("the row that a key waits for is known, so that it is not held back by itself") {
  BlockedKeys keys;
  CHECK_FALSE(keys.blocker("k").has_value());
  keys.block("k", 3, 5);
  CHECK(keys.blocker("k") == 3);
  keys.unblock(3);
  CHECK_FALSE(keys.blocker("k").has_value());
}

TEST_CASE("a key that has found another blocker is not freed by the first") {
  BlockedKeys keys;
  keys.block("k", 3, 5);
  keys.block("k", 4, 5);
  CHECK_FALSE(keys.unblock(3).has_value());
  CHECK(keys.holds_back("k", 5));
  CHECK(keys.unblock(4) == 5);
}

TEST_CASE("the memory of blocked keys is bounded") {
  BlockedKeys keys;
  for (int i = 0; i <= 10'000; ++i) keys.block("k" + std::to_string(i), i, i + 1);
  CHECK_FALSE(keys.holds_back("k0", 1));
  CHECK(keys.holds_back("k10000", 10'001));
}

TEST_CASE("a lock held too long halves what a transaction may touch; short ones win it back") {
  Pace pace;
  const std::size_t before = pace.limit();
  pace.held(9ms, 1ms);
  CHECK(pace.limit() == before / 2);
  for (int i = 0; i < 100; ++i) pace.held(9ms, 1ms);
  CHECK(pace.limit() == 32);
  for (int i = 0; i < 1000; ++i) pace.held(1ms, 500us);
  CHECK(pace.limit() > before);
}

TEST_CASE("a slow disk is no reason for smaller transactions") {
  Pace pace;
  const std::size_t before = pace.limit();
  pace.held(30ms, 29ms);
  CHECK(pace.limit() == before);
}

TEST_CASE("the rest is four times the work while others write, else none") {
  Pace pace;
  CHECK(pace.rest(at(0s), 2ms) == Duration{0});
  pace.others_wrote(at(0s));
  CHECK(pace.rest(at(500ms), 2ms) == 8ms);
  CHECK(pace.rest(at(2s), 2ms) == Duration{0});
}

}  // namespace
}  // namespace outbox::sqlite
