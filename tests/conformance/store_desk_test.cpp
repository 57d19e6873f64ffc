// An operator's questions and orders.
#include "tests/conformance/store_cases.h"

namespace outbox::conformance {
namespace {

DeadLetterFilter filter_of(std::vector<std::string> ids, std::string event_type, std::string reason,
                           std::size_t limit = 1000) {
  DeadLetterFilter filter;
  filter.ids = std::move(ids);
  filter.event_type = std::move(event_type);
  filter.reason = std::move(reason);
  filter.limit = limit;
  return filter;
}

// The next two rows become dead letters.
void bury_two(Client& relay) {
  const Turn turn = done(relay.turn());
  done(relay.settle({dead(turn.leased.at(0), DeadReason::permanent),
                     dead(turn.leased.at(1), DeadReason::permanent)}));
}

TEST_CASE("the desk counts what waits, what is leased and what is dead") {
  Outbox outbox;
  Client relay(*outbox.fixture);
  done(relay.turn());
  outbox.fixture->insert({.id = "dead", .event_type = "order.cancelled"});
  outbox.insert({"failed", "leased", "pending1", "pending2"});
  const Turn turn = done(relay.lease(3));
  done(
      relay.settle({dead(turn.leased.at(0), DeadReason::permanent), retry(turn.leased.at(1), 1h)}));
  outbox.fixture->advance(1min);
  const auto desk = outbox.fixture->open_desk();
  const auto backlog = desk->backlog();
  REQUIRE_MESSAGE(backlog.ok(), backlog.error);
  CHECK(backlog.value.pending == 2);
  CHECK(backlog.value.failed == 1);
  CHECK(backlog.value.leased == 1);
  CHECK(backlog.value.dead_lettered == 1);
  REQUIRE(backlog.value.oldest_age.has_value());
  CHECK(*backlog.value.oldest_age >= 60s);
  CHECK(*backlog.value.oldest_age < 70s);
  CHECK(backlog.value.dead_by_event_type ==
        std::vector<std::pair<std::string, std::uint64_t>>{{"order.cancelled", 1}});
}

TEST_CASE("dead letters are found and redriven by id, type and reason") {
  Outbox outbox;
  outbox.fixture->insert({.id = "a", .event_type = "x"});
  outbox.fixture->insert({.id = "b", .event_type = "x"});
  outbox.fixture->insert({.id = "c", .event_type = "y", .ordering_key = "k"});
  Client relay(*outbox.fixture);
  const Turn turn = done(relay.turn());
  done(relay.settle({dead(turn.leased.at(0), DeadReason::permanent),
                     dead(turn.leased.at(1), DeadReason::oversized),
                     dead(turn.leased.at(2), DeadReason::permanent)}));
  const auto desk = outbox.fixture->open_desk();
  const auto all = desk->dead_letters({});
  REQUIRE_MESSAGE(all.ok(), all.error);
  REQUIRE(all.value.size() == 3);
  CHECK(all.value[2].id == "c");
  CHECK(all.value[2].event_type == "y");
  CHECK(all.value[2].ordering_key == "k");
  CHECK(all.value[2].reason == "permanent");
  CHECK(all.value[2].attempts == 1);
  CHECK(all.value[2].last_error == "refused for good");
  CHECK(all.value[2].died_on.size() == std::string("2026-11-30T18:42:00.123Z").size());
  CHECK(all.value[2].died_on >= all.value[2].occurred_on);
  CHECK(desk->dead_letters(filter_of({"a", "c"}, "", "")).value.size() == 2);
  CHECK(desk->dead_letters(filter_of({}, "x", "")).value.size() == 2);
  CHECK(desk->dead_letters(filter_of({}, "", "oversized")).value.size() == 1);
  CHECK(desk->dead_letters(filter_of({}, "", "", 1)).value.size() == 1);

  CHECK(desk->redrive(filter_of({}, "", "oversized"), "limit raised", {}).value == 1);
  CHECK(outbox.fixture->read("b").status == "Pending");
  CHECK(outbox.fixture->read("b").retry_count == 0);
  CHECK_FALSE(outbox.fixture->read("b").last_error.has_value());
  CHECK_FALSE(outbox.fixture->read("b").dead_letter_reason.has_value());
  CHECK(desk->redrive(filter_of({}, "", "", 1), "one", {}).value == 1);
  CHECK(desk->dead_letters({}).value.size() == 1);
}

// So many dead letters in an outbox that was empty.
void bury(const Outbox& outbox, Client& relay, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) outbox.insert({"evt-" + std::to_string(i)});
  relay.request.limit = 1000;
  std::vector<Settlement> verdicts;
  for (const Message& message : done(relay.turn()).leased) {
    verdicts.push_back(dead(message, DeadReason::attempts_exhausted));
  }
  REQUIRE(verdicts.size() == count);
  done(relay.settle(verdicts));
}

TEST_CASE("a redrive of many rows moves them all") {
  Outbox outbox;
  Client relay(*outbox.fixture);
  bury(outbox, relay, 250);
  const auto desk = outbox.fixture->open_desk();
  CHECK(desk->redrive({}, "all of them", {}).value == 250);
  CHECK(desk->backlog().value.pending == 250);
  outbox.fixture->advance(2s);
  CHECK(done(relay.turn()).leased.size() == 250);
}

TEST_CASE("an operator's hold of the circuit reaches every relay with its next turn") {
  Outbox outbox;
  outbox.insert({"a"});
  Client one(*outbox.fixture);
  Client other(*outbox.fixture);
  CHECK_FALSE(done(one.lease(0)).circuit_held);
  CHECK_FALSE(done(other.lease(0)).circuit_held);
  const auto desk = outbox.fixture->open_desk();
  const auto held = desk->hold_circuit(true, "broker is being moved");
  REQUIRE_MESSAGE(held.ok(), held.error);
  CHECK(held.value);
  for (Client* relay : {&one, &other}) {
    const Turn turn = done(relay->turn());
    CHECK(turn.circuit_held);
    CHECK(turn.leased.empty());
  }
  Client later(*outbox.fixture);
  CHECK(done(later.turn()).circuit_held);
  const auto again = desk->hold_circuit(true, "once more");
  REQUIRE_MESSAGE(again.ok(), again.error);
  CHECK_FALSE(again.value);
  CHECK(desk->hold_circuit(false, "moved").value);
  CHECK_FALSE(desk->hold_circuit(false, "moved twice").value);
  const Turn turn = done(one.turn());
  CHECK_FALSE(turn.circuit_held);
  CHECK(ids_of(turn) == Ids{"a"});
}

TEST_CASE("discarding deletes dead letters with what is noted beside them, and nothing else") {
  Outbox outbox;
  outbox.insert({"dead1", "dead2", "failed", "pending"});
  Client relay(*outbox.fixture);
  const Turn turn = done(relay.lease(3));
  done(
      relay.settle({dead(turn.leased.at(0), DeadReason::permanent),
                    dead(turn.leased.at(1), DeadReason::oversized), retry(turn.leased.at(2), 1h)}));
  const auto desk = outbox.fixture->open_desk();
  std::vector<std::uint64_t> told;
  const auto discarded = desk->discard(filter_of({"dead1", "failed", "pending"}, "", ""), "a test",
                                       [&](std::uint64_t done) {
                                         told.push_back(done);
                                         return true;
                                       });
  REQUIRE_MESSAGE(discarded.ok(), discarded.error);
  CHECK(discarded.value == 1);
  CHECK(told == std::vector<std::uint64_t>{1});
  CHECK(outbox.fixture->read("dead1").status.empty());
  CHECK(outbox.fixture->read("dead2").status == "DeadLettered");
  CHECK(outbox.fixture->read("failed").status == "Failed");
  CHECK(outbox.fixture->read("pending").status == "Pending");
  CHECK(desk->discard({}, "the rest", {}).value == 1);
  CHECK(desk->discard({}, "none left", {}).value == 0);
  CHECK(desk->backlog().value.dead_lettered == 0);
}

TEST_CASE("a dead letter that refuses to be deleted stays, is told, and spoils no other") {
  Outbox outbox;
  outbox.insert({"a", "b"});
  Client relay(*outbox.fixture);
  bury_two(relay);
  outbox.fixture->refuse_changes("a");
  const auto desk = outbox.fixture->open_desk();
  const auto discarded = desk->discard({}, "all", {});
  CHECK_FALSE(discarded.ok());
  CHECK(discarded.value == 1);
  CHECK(outbox.fixture->read("a").status == "DeadLettered");
  CHECK(outbox.fixture->read("b").status.empty());
}

TEST_CASE("a redrive stops when its progress is told to") {
  Outbox outbox;
  Client relay(*outbox.fixture);
  bury(outbox, relay, 250);
  const auto desk = outbox.fixture->open_desk();
  const auto moved = desk->redrive({}, "a few", [](std::uint64_t) { return false; });
  REQUIRE_MESSAGE(moved.ok(), moved.error);
  CHECK(moved.value > 0);
  CHECK(moved.value < 250);
  CHECK(desk->backlog().value.dead_lettered == 250 - moved.value);
}

TEST_CASE("an export hands out dead letters with their payloads, in the order of the table") {
  Outbox outbox;
  const std::string bytes("\x00\xff\x01", 3);
  outbox.fixture->insert({.id = "a",
                          .event_type = "x",
                          .payload = bytes,
                          .ordering_key = "k",
                          .destination = "there",
                          .content_type = "application/octet-stream",
                          .headers = R"({"h": "v"})",
                          .traceparent = "00-1-2-03"});
  outbox.insert({"b", "c"});
  Client relay(*outbox.fixture);
  const Turn turn = done(relay.turn());
  done(
      relay.settle({dead(turn.leased.at(2), DeadReason::permanent),
                    dead(turn.leased.at(0), DeadReason::oversized), delivered(turn.leased.at(1))}));
  const auto desk = outbox.fixture->open_desk();
  std::vector<ExportedLetter> letters;
  const auto exported = desk->export_dead_letters({}, [&](const ExportedLetter& letter) {
    letters.push_back(letter);
    return true;
  });
  REQUIRE_MESSAGE(exported.ok(), exported.error);
  CHECK(exported.value == 2);
  REQUIRE(letters.size() == 2);
  CHECK(letters[0].letter.id == "a");
  CHECK(letters[0].letter.reason == "oversized");
  CHECK(letters[0].payload == bytes);
  CHECK(letters[0].destination == "there");
  CHECK(letters[0].content_type == "application/octet-stream");
  CHECK(letters[0].headers == R"({"h": "v"})");
  CHECK(letters[0].traceparent == "00-1-2-03");
  CHECK(letters[1].letter.id == "c");
  const auto stopped = desk->export_dead_letters({}, [](const ExportedLetter&) { return false; });
  CHECK(stopped.value == 0);
  CHECK(outbox.fixture->read("a").status == "DeadLettered");
}

MessageFilter messages_where(const std::function<void(MessageFilter&)>& set) {
  MessageFilter filter;
  set(filter);
  return filter;
}

Ids ids_of(const Answer<std::vector<MessageSummary>>& found) {
  REQUIRE_MESSAGE(found.ok(), found.error);
  Ids ids;
  for (const auto& message : found.value) ids.push_back(message.id);
  return ids;
}

TEST_CASE("messages are found by id, type, key, state, lease and time, the newest first") {
  Outbox outbox;
  outbox.fixture->insert({.id = "done", .event_type = "x"});
  outbox.fixture->insert({.id = "failed", .event_type = "x", .ordering_key = "k"});
  outbox.fixture->insert({.id = "dead", .event_type = "y", .ordering_key = "k2"});
  outbox.fixture->insert({.id = "leased", .event_type = "y"});
  Client relay(*outbox.fixture);
  const Turn turn = done(relay.turn());
  done(relay.settle({delivered(turn.leased.at(0)), retry(turn.leased.at(1), 1h),
                     dead(turn.leased.at(2), DeadReason::permanent)}));
  outbox.fixture->advance(2h);
  outbox.insert({"new"});
  const auto desk = outbox.fixture->open_desk();
  const auto find = [&](const std::function<void(MessageFilter&)>& set) {
    return ids_of(desk->messages(messages_where(set)));
  };
  CHECK(find([](auto&) {}) == Ids{"new", "leased", "dead", "failed", "done"});
  CHECK(find([](auto& filter) { filter.oldest_first = true; }).front() == "done");
  CHECK(find([](auto& filter) { filter.limit = 2; }) == Ids{"new", "leased"});
  CHECK(find([](auto& filter) { filter.ids = {"done", "none", "dead"}; }) == Ids{"dead", "done"});
  CHECK(find([](auto& filter) { filter.event_type = "x"; }) == Ids{"failed", "done"});
  CHECK(find([](auto& filter) { filter.ordering_key = "k"; }) == Ids{"failed"});
  CHECK(find([](auto& filter) { filter.leased = true; }) == Ids{"leased"});
  CHECK(find([](auto& filter) { filter.state = MessageState::failed; }) == Ids{"failed"});
  CHECK(find([](auto& filter) { filter.state = MessageState::processed; }) == Ids{"done"});
  CHECK(find([](auto& filter) { filter.state = MessageState::dead_lettered; }) == Ids{"dead"});
  CHECK(find([](auto& filter) { filter.state = MessageState::pending; }) == Ids{"new", "leased"});

  const auto newest = desk->messages(messages_where([](auto& filter) { filter.ids = {"new"}; }));
  const std::string hour_of_new = newest.value.at(0).occurred_on;
  CHECK(find([&](auto& filter) { filter.since = hour_of_new; }) == Ids{"new"});
  CHECK(find([&](auto& filter) { filter.until = hour_of_new; }).size() == 4);
}

TEST_CASE("a message is shown with its columns, what is beside it and its payload") {
  Outbox outbox;
  outbox.fixture->insert({.id = "a", .event_type = "x", .payload = "12345", .ordering_key = "k"});
  Client relay(*outbox.fixture);
  const auto desk = outbox.fixture->open_desk();
  CHECK(desk->message("none", 0).value.empty());
  const Turn turn = done(relay.turn());
  done(relay.settle({retry(turn.leased.at(0), 1h)}));
  auto shown = desk->message("a", 0);
  REQUIRE_MESSAGE(shown.ok(), shown.error);
  REQUIRE(shown.value.size() == 1);
  const MessageDetail& detail = shown.value[0];
  CHECK(detail.summary.state == MessageState::failed);
  CHECK(detail.summary.attempts == 1);
  CHECK(detail.summary.last_error == "connection refused");
  CHECK_FALSE(detail.summary.leased);
  CHECK(detail.payload_size == 5);
  CHECK_FALSE(detail.payload.has_value());
  CHECK_FALSE(detail.columns.empty());
  CHECK_FALSE(detail.beside.empty());
  CHECK(desk->message("a", 100).value.at(0).payload == "12345");
  CHECK(desk->message("a", 2).value.at(0).payload == "12");
}

TEST_CASE("what decides when a message is sent next is told with it") {
  Outbox outbox;
  const auto keyed = [&](const char* id, const char* key) {
    outbox.fixture->insert({.id = id, .ordering_key = key});
  };
  keyed("dead", "k");
  keyed("failed", "l");
  keyed("behind the dead", "k");
  keyed("behind the failed", "l");
  outbox.fixture->insert({.id = "later", .not_before = 1h});
  outbox.insert({"leased"});
  Client relay(*outbox.fixture);
  relay.request.ordering = Ordering::key;
  const Turn turn = done(relay.lease(2));
  Settlement waits = retry(turn.leased.at(1), 1h);
  waits.waits_for_recovery = true;
  done(relay.settle({dead(turn.leased.at(0), DeadReason::permanent), waits}));
  REQUIRE(conformance::ids_of(done(relay.turn())) == Ids{"leased"});
  const auto desk = outbox.fixture->open_desk();
  const auto outlook_of = [&](const char* id) {
    const auto shown = desk->message(id, 0);
    REQUIRE_MESSAGE(shown.ok(), shown.error);
    REQUIRE(shown.value.size() == 1);
    return shown.value[0].outlook;
  };
  CHECK_FALSE(outlook_of("failed").due_on.empty());
  CHECK(outlook_of("failed").waits_for_recovery);
  CHECK_FALSE(outlook_of("failed").open_ahead.has_value());
  REQUIRE(outlook_of("behind the dead").dead_ahead.has_value());
  CHECK(outlook_of("behind the dead").dead_ahead->id == "dead");
  CHECK_FALSE(outlook_of("behind the dead").open_ahead.has_value());
  REQUIRE(outlook_of("behind the failed").open_ahead.has_value());
  CHECK(outlook_of("behind the failed").open_ahead->id == "failed");
  CHECK(outlook_of("behind the failed").open_ahead->state == MessageState::failed);
  CHECK(outlook_of("later").asked_to_wait);
  CHECK_FALSE(outlook_of("later").due_on.empty());
  REQUIRE(outlook_of("leased").holder.has_value());
  CHECK(outlook_of("leased").holder->leases == 1);
  CHECK(outlook_of("leased").due_on.empty());
  REQUIRE(desk->pause(true, "a test").ok());
  CHECK(outlook_of("later").paused);
  CHECK_FALSE(outlook_of("later").isolated);
}

TEST_CASE("what an operator did to a message, and its death, stand in its audit") {
  Outbox outbox;
  outbox.insert({"a"});
  Client relay(*outbox.fixture);
  done(relay.settle({dead(done(relay.turn()).leased.at(0), DeadReason::permanent)}));
  const auto desk = outbox.fixture->open_desk();
  REQUIRE(desk->redrive({}, "mended", {}).value == 1);
  const auto shown = desk->message("a", 0);
  REQUIRE(shown.value.size() == 1);
  const auto& audit = shown.value[0].audit;
  REQUIRE(audit.size() == 2);
  CHECK(audit[0].action == "dead_letter");
  CHECK(audit[0].reason == "permanent: refused for good");
  CHECK(audit[1].action == "redrive");
  CHECK(audit[1].reason == "mended");
  CHECK_FALSE(audit[1].at.empty());
}

TEST_CASE("what is known of a message that is gone is its trail in the audit") {
  Outbox outbox;
  outbox.insert({"a", "b"});
  Client relay(*outbox.fixture);
  bury_two(relay);
  const auto desk = outbox.fixture->open_desk();
  REQUIRE(desk->discard(filter_of({"a"}, "", ""), "sent by hand", {}).value == 1);
  REQUIRE(desk->message("a", 0).value.empty());
  const auto trail = desk->trail("a");
  REQUIRE_MESSAGE(trail.ok(), trail.error);
  REQUIRE(trail.value.size() == 2);
  CHECK(trail.value[0].id == "a");
  CHECK(trail.value[0].action == "dead_letter");
  CHECK(trail.value[1].action == "discard");
  CHECK(trail.value[1].reason == "sent by hand");
  CHECK(desk->trail("never seen").value.empty());
}

TEST_CASE(
    "a pause reaches every relay with its next turn: nothing is leased, what is held settles") {
  Outbox outbox;
  outbox.insert({"a"});
  Client one(*outbox.fixture);
  Client other(*outbox.fixture);
  const Turn held_before = done(one.turn());
  REQUIRE(held_before.leased.size() == 1);
  CHECK_FALSE(held_before.paused);
  outbox.insert({"b"});
  const auto desk = outbox.fixture->open_desk();
  const auto paused = desk->pause(true, "maintenance");
  REQUIRE_MESSAGE(paused.ok(), paused.error);
  CHECK(paused.value);
  CHECK_FALSE(desk->pause(true, "once more").value);
  const Turn turn = done(other.turn());
  CHECK(turn.paused);
  CHECK(turn.leased.empty());
  const Turn settled = done(one.turn({delivered(held_before.leased[0])}));
  CHECK(settled.paused);
  CHECK(settled.leased.empty());
  CHECK(settled.fenced == 0);
  CHECK(outbox.fixture->read("a").status == "Processed");
  Client later(*outbox.fixture);
  CHECK(done(later.turn()).paused);
  // The circuit is another matter.
  REQUIRE(desk->hold_circuit(true, "both").ok());
  REQUIRE(desk->hold_circuit(false, "only the pause is left").ok());
  CHECK(done(later.turn()).paused);
  CHECK(desk->pause(false, "done").value);
  const Turn again = done(one.turn());
  CHECK_FALSE(again.paused);
  CHECK(conformance::ids_of(again) == Ids{"b"});
}

}  // namespace
}  // namespace outbox::conformance
