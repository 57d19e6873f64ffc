// What relays of one outbox tell each other of their broker's circuit.
#include "tests/conformance/store_cases.h"

namespace outbox::conformance {
namespace {

CircuitNews opened(Duration length) {
  return {CircuitNews::Kind::opened, length, "5 publishes in a row failed", 0};
}

CircuitNews closed(const SharedVerdict& verdict) {
  return {CircuitNews::Kind::closed, Duration{0}, "", verdict.number};
}

SharedVerdict verdict_of(const Turn& turn) {
  REQUIRE(turn.verdict.has_value());
  return *turn.verdict;
}

struct Pair {
  Pair() { outbox.insert({"a", "b", "c", "d"}); }

  SharedVerdict seen_by(Client& relay) { return verdict_of(done(relay.lease(0))); }

  Outbox outbox;
  Client first{*outbox.fixture};
  Client second{*outbox.fixture};
};

TEST_CASE("no verdict stands until a relay tells of its open circuit, then all are told") {
  Pair relays;
  CHECK_FALSE(relays.seen_by(relays.first).open);
  const SharedVerdict own = verdict_of(done(relays.first.tell(opened(15s))));
  CHECK(own.open);
  CHECK(own.wait == 15s);
  relays.outbox.fixture->advance(5s);
  const SharedVerdict others = relays.seen_by(relays.second);
  CHECK(others.open);
  CHECK(others.number == own.number);
  CHECK(others.wait == 10s);
}

TEST_CASE("while a verdict stands rows are leased by relays that don't believe it yet") {
  Pair relays;
  done(relays.first.tell(opened(15s)));
  CHECK(done(relays.second.lease(2)).leased.size() == 2);
}

TEST_CASE("nobody probes before the break is over, then one relay at a time") {
  Pair relays;
  done(relays.first.tell(opened(15s)));
  relays.outbox.fixture->advance(14s);
  CHECK(done(relays.second.probe()).leased.empty());
  relays.outbox.fixture->advance(2s);
  const Turn probe = done(relays.second.probe());
  CHECK(ids_of(probe) == Ids{"a"});
  CHECK(verdict_of(probe).wait == 0s);
  const Turn refused = done(relays.first.probe());
  CHECK(refused.leased.empty());
  CHECK(verdict_of(refused).open);
  CHECK(verdict_of(refused).wait == 10s);
  // The one that probes may send another, as where several must succeed.
  CHECK(done(relays.second.probe()).leased.size() == 1);
}

TEST_CASE("a probe that finds no row keeps no place") {
  Pair relays;
  for (const char* id : {"a", "b", "c", "d"}) relays.outbox.fixture->remove(id);
  done(relays.first.tell(opened(15s)));
  relays.outbox.fixture->advance(16s);
  CHECK(done(relays.second.probe()).leased.empty());
  relays.outbox.insert({"e"});
  CHECK(ids_of(done(relays.first.probe())) == Ids{"e"});
}

TEST_CASE("a relay that has a row to probe with asks for the place alone") {
  Pair relays;
  done(relays.first.tell(opened(15s)));
  relays.outbox.fixture->advance(16s);
  const Turn place = done(relays.second.ask_for_probe());
  CHECK(place.leased.empty());
  CHECK(verdict_of(place).wait == 0s);
  CHECK(verdict_of(done(relays.first.probe())).wait == 10s);
  CHECK(verdict_of(done(relays.first.ask_for_probe())).wait == 10s);
}

TEST_CASE("the place of a relay that died while it probed runs out") {
  Pair relays;
  done(relays.first.tell(opened(15s)));
  relays.outbox.fixture->advance(16s);
  REQUIRE(done(relays.second.probe(10s)).leased.size() == 1);
  relays.second.die();
  relays.outbox.fixture->advance(9s);
  CHECK(done(relays.first.probe()).leased.empty());
  relays.outbox.fixture->advance(2s);
  CHECK(done(relays.first.probe()).leased.size() == 1);
}

TEST_CASE("a relay that ends leaves the probe to the others") {
  Pair relays;
  done(relays.first.tell(opened(15s)));
  relays.outbox.fixture->advance(16s);
  REQUIRE(done(relays.second.probe()).leased.size() == 1);
  relays.second.store().retire();
  CHECK(done(relays.first.probe()).leased.size() == 1);
}

TEST_CASE("a probe that failed starts another break for all") {
  Pair relays;
  const SharedVerdict before = verdict_of(done(relays.first.tell(opened(15s))));
  relays.outbox.fixture->advance(16s);
  REQUIRE(done(relays.second.probe()).leased.size() == 1);
  const SharedVerdict after = verdict_of(done(relays.second.tell(opened(20s))));
  CHECK(after.open);
  CHECK(after.number != before.number);
  CHECK(relays.seen_by(relays.first).wait == 20s);
  CHECK(done(relays.first.probe()).leased.empty());
  relays.outbox.fixture->advance(21s);
  CHECK(done(relays.first.probe()).leased.size() == 1);
}

TEST_CASE("a second relay whose circuit opens does not put off the probe") {
  Pair relays;
  const SharedVerdict before = verdict_of(done(relays.first.tell(opened(15s))));
  relays.outbox.fixture->advance(5s);
  const SharedVerdict after = verdict_of(done(relays.second.tell(opened(60s))));
  CHECK(after.number == before.number);
  CHECK(after.wait == 10s);
}

TEST_CASE("a probe that got through ends the verdict for all") {
  Pair relays;
  done(relays.first.tell(opened(15s)));
  relays.outbox.fixture->advance(16s);
  const Turn probe = done(relays.second.probe());
  CHECK_FALSE(verdict_of(done(relays.second.tell(closed(verdict_of(probe))))).open);
  CHECK_FALSE(relays.seen_by(relays.first).open);
  CHECK(done(relays.first.probe()).leased.size() == 1);
}

TEST_CASE("a late success does not end a verdict that came after it") {
  Pair relays;
  done(relays.first.tell(opened(15s)));
  relays.outbox.fixture->advance(16s);
  const SharedVerdict probed = verdict_of(done(relays.second.probe()));
  relays.outbox.fixture->advance(11s);  // its place has run out
  REQUIRE(done(relays.first.probe()).leased.size() == 1);
  done(relays.first.tell(opened(15s)));
  CHECK(verdict_of(done(relays.second.tell(closed(probed)))).open);
}

TEST_CASE("a late failure opens no verdict anew that another relay's probe has ended") {
  Pair relays;
  done(relays.first.tell(opened(15s)));
  relays.outbox.fixture->advance(16s);
  const SharedVerdict probed = verdict_of(done(relays.second.probe()));
  relays.outbox.fixture->advance(11s);  // its place has run out
  done(relays.first.tell(closed(verdict_of(done(relays.first.probe())))));
  CircuitNews late = opened(15s);
  late.verdict = probed.number;
  CHECK_FALSE(verdict_of(done(relays.second.tell(late))).open);
}

TEST_CASE("what an operator closes is closed for all") {
  Pair relays;
  done(relays.first.tell(opened(15s)));
  const auto desk = relays.outbox.fixture->open_desk();
  desk->hold_circuit(true, "maintenance");
  CHECK(done(relays.second.lease(0)).circuit_held);
  desk->hold_circuit(false, "done");
  const Turn turn = done(relays.second.lease(0));
  CHECK_FALSE(turn.circuit_held);
  CHECK_FALSE(verdict_of(turn).open);
}

TEST_CASE("a verdict writes nothing by standing") {
  Pair relays;
  done(relays.first.tell(opened(15s)));
  done(relays.second.probe());
  const std::int64_t before = relays.outbox.fixture->version();
  done(relays.second.probe());
  done(relays.first.lease(0));
  CHECK(relays.outbox.fixture->version() == before);
}

}  // namespace
}  // namespace outbox::conformance
