// Which row comes first: fresh ones and retries, probes, ordering keys.
#include "tests/conformance/store_cases.h"

namespace outbox::conformance {
namespace {

TEST_CASE("while fresh rows wait, retries get their share and no more") {
  Outbox outbox;
  outbox.insert({"r1", "r2", "r3", "r4"});
  Client relay(*outbox.fixture);
  std::vector<Settlement> verdicts;
  for (const Message& message : done(relay.turn()).leased) verdicts.push_back(retry(message, 1s));
  done(relay.settle(verdicts));
  outbox.insert({"f1", "f2", "f3", "f4"});
  outbox.fixture->advance(2s);
  relay.request.retry_limit = 1;
  relay.request.limit = 3;
  CHECK(ids_of(done(relay.turn())) == Ids{"r1", "f1", "f2"});
}

TEST_CASE("capacity that fresh rows leave is the retries', and the other way round") {
  Outbox outbox;
  outbox.insert({"r1", "r2", "r3"});
  Client relay(*outbox.fixture);
  std::vector<Settlement> verdicts;
  for (const Message& message : done(relay.turn()).leased) verdicts.push_back(retry(message, 1s));
  done(relay.settle(verdicts));
  outbox.insert({"f1"});
  outbox.fixture->advance(2s);
  relay.request.retry_limit = 1;
  CHECK(ids_of(done(relay.turn())) == Ids{"r1", "r2", "r3", "f1"});
  outbox.insert({"f2", "f3"});
  CHECK(ids_of(done(relay.turn())) == Ids{"f2", "f3"});
}

TEST_CASE("retries without a limit of their own come in the order of the table") {
  Outbox outbox;
  outbox.insert({"a", "b", "c", "d"});
  Client relay(*outbox.fixture);
  const Turn turn = done(relay.turn());
  done(relay.settle({released(turn.leased.at(0)), retry(turn.leased.at(1), 1s),
                     released(turn.leased.at(2)), retry(turn.leased.at(3), 1s)}));
  outbox.fixture->advance(2s);
  relay.request.limit = 3;
  CHECK(ids_of(done(relay.turn())) == Ids{"a", "b", "c"});
  CHECK(ids_of(done(relay.turn())) == Ids{"d"});
}

TEST_CASE("the retry that has been due longest comes first") {
  Outbox outbox;
  outbox.insert({"a", "b", "c"});
  Client relay(*outbox.fixture);
  const Turn turn = done(relay.turn());
  done(relay.settle(
      {retry(turn.leased.at(0), 3s), retry(turn.leased.at(1), 1s), retry(turn.leased.at(2), 2s)}));
  outbox.fixture->advance(5s);
  relay.request.limit = 2;
  relay.request.retry_limit = 1;
  CHECK(ids_of(done(relay.lease(2))) == Ids{"b", "c"});
}

TEST_CASE("rows that wait for the broker's recovery are due when it is back") {
  Outbox outbox;
  outbox.insert({"a", "b"});
  Client relay(*outbox.fixture);
  const Turn turn = done(relay.turn());
  Settlement waiting = retry(turn.leased.at(0), 1h);
  waiting.waits_for_recovery = true;
  const Turn settled = done(relay.settle({waiting, retry(turn.leased.at(1), 1h)}));
  CHECK(done(relay.turn()).leased.empty());
  relay.request.recovered = settled.epoch - 1;
  CHECK(done(relay.turn()).leased.empty());
  relay.request.recovered = settled.epoch;
  const Turn recovered = done(relay.turn());
  CHECK(ids_of(recovered) == Ids{"a"});
  waiting = retry(recovered.leased.at(0), 1h);
  waiting.waits_for_recovery = true;
  done(relay.settle({waiting}));
  CHECK(done(relay.turn()).leased.empty());
}

TEST_CASE("a probe takes a row that waits for recovery when no other is due") {
  Outbox outbox;
  outbox.insert({"a", "b"});
  Client relay(*outbox.fixture);
  const Turn turn = done(relay.turn());
  std::vector<Settlement> verdicts{retry(turn.leased.at(0), 1h), retry(turn.leased.at(1), 1h)};
  for (Settlement& verdict : verdicts) verdict.waits_for_recovery = true;
  done(relay.settle(verdicts));
  relay.request.probe = true;
  relay.request.limit = 1;
  relay.request.retry_limit = 1;
  const Turn probe = done(relay.turn());
  REQUIRE(probe.leased.size() == 1);
  Settlement failed = retry(probe.leased[0], 1h);
  failed.waits_for_recovery = true;
  done(relay.settle({failed}));
  // Another row each time; one that never failed before all others.
  const Turn next = done(relay.turn());
  REQUIRE(next.leased.size() == 1);
  CHECK(next.leased[0].id != probe.leased[0].id);
  outbox.insert({"fresh"});
  CHECK(ids_of(done(relay.turn())) == Ids{"fresh"});
}

TEST_CASE("by key: one relay at a time has rows of a key, in order") {
  Outbox outbox;
  for (const auto* id : {"a1", "a2", "a3"}) outbox.insert_keyed(id, "a");
  outbox.insert_keyed("b1", "b");
  outbox.insert({"free"});
  Client one(*outbox.fixture);
  Client other(*outbox.fixture);
  one.request.ordering = other.request.ordering = Ordering::key;
  const Turn first = done(one.lease(2));
  CHECK(ids_of(first) == Ids{"a1", "a2"});
  CHECK(ids_of(done(other.turn())) == Ids{"b1", "free"});
  // Its own followers may join the head that it holds.
  const Turn follower = done(one.turn());
  CHECK(ids_of(follower) == Ids{"a3"});
  done(one.settle({delivered(first.leased.at(0)), released(first.leased.at(1)),
                   released(follower.leased.at(0))}));
  CHECK(ids_of(done(other.turn())) == Ids{"a2", "a3"});
}

TEST_CASE("by key: nothing overtakes a head that waits for its retry") {
  Outbox outbox;
  outbox.insert_keyed("a1", "a");
  outbox.insert_keyed("a2", "a");
  outbox.insert_keyed("b1", "b");
  Client relay(*outbox.fixture);
  relay.request.ordering = Ordering::key;
  const Turn turn = done(relay.turn());
  REQUIRE(turn.leased.size() == 3);
  const Turn next = done(relay.turn(
      {retry(turn.leased[0], 10s), released(turn.leased[1]), delivered(turn.leased[2])}));
  CHECK(next.leased.empty());
  outbox.insert_keyed("a3", "a");
  CHECK(done(relay.turn()).leased.empty());
  outbox.fixture->advance(11s);
  relay.request.retry_limit = 1;
  CHECK(ids_of(done(relay.turn())) == Ids{"a1", "a2", "a3"});
}

TEST_CASE("by key: a late confirmation of the head frees its followers at once") {
  Outbox outbox;
  outbox.insert_keyed("a1", "a");
  outbox.insert_keyed("a2", "a");
  Client relay(*outbox.fixture);
  relay.request.ordering = Ordering::key;
  const Turn turn = done(relay.turn());
  REQUIRE(turn.leased.size() == 2);
  const Turn waiting = done(relay.turn({retry(turn.leased[0], 1h), released(turn.leased[1])}));
  CHECK(waiting.leased.empty());
  CHECK(ids_of(done(relay.turn({delivered(turn.leased[0])}))) == Ids{"a2"});
}

TEST_CASE("by key: a dead head blocks its key, or is passed if that is asked for") {
  Outbox outbox;
  outbox.insert_keyed("a1", "a");
  outbox.insert_keyed("a2", "a");
  outbox.insert_keyed("b1", "b");
  Client relay(*outbox.fixture);
  relay.request.ordering = Ordering::key;
  const Turn turn = done(relay.lease(1));
  CHECK(ids_of(done(relay.turn({dead(turn.leased.at(0), DeadReason::permanent)}))) == Ids{"b1"});
  outbox.fixture->advance(2s);
  CHECK(done(relay.turn()).leased.empty());
  relay.request.dead_blocks_key = false;
  outbox.fixture->advance(2s);
  CHECK(ids_of(done(relay.turn())) == Ids{"a2"});
}

TEST_CASE("by key: a redriven head comes before its followers") {
  Outbox outbox;
  outbox.insert_keyed("a1", "a");
  outbox.insert_keyed("a2", "a");
  Client relay(*outbox.fixture);
  relay.request.ordering = Ordering::key;
  const Turn turn = done(relay.lease(1));
  done(relay.settle({dead(turn.leased.at(0), DeadReason::permanent)}));
  CHECK(done(relay.turn()).leased.empty());
  const auto desk = outbox.fixture->open_desk();
  REQUIRE(desk->redrive({}, "again", {}).value == 1);
  outbox.fixture->advance(2s);
  CHECK(ids_of(done(relay.turn())) == Ids{"a1", "a2"});
}

TEST_CASE("without ordering a key holds nobody back") {
  Outbox outbox;
  outbox.insert_keyed("a1", "a");
  outbox.insert_keyed("a2", "a");
  Client one(*outbox.fixture);
  Client other(*outbox.fixture);
  CHECK(ids_of(done(one.lease(1))) == Ids{"a1"});
  CHECK(ids_of(done(other.turn())) == Ids{"a2"});
}

}  // namespace
}  // namespace outbox::conformance
