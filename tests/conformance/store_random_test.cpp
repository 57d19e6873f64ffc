// Random work by several relays that die, stall and repeat themselves; what holds must hold always.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "relay/random.h"
#include "tests/conformance/store_conformance.h"

namespace outbox::conformance {
namespace {

using namespace std::chrono_literals;

constexpr int kSteps = 150;
constexpr Duration kTerm = 30s;

std::string listed(const Turn& turn) {
  std::string list;
  for (const std::string& id : ids_of(turn)) list += id + " ";
  return list;
}

struct Known {
  std::string id;
  std::string key;
  int order = 0;
  std::uint32_t charges = 0;
  bool decided = false;
  bool dead = false;
  bool refuses = false;
  bool uncertain = false;  // settled when the lease may have been lost
};

// One relay and what it believes to hold.
struct Actor {
  std::unique_ptr<Client> client;
  std::map<std::string, Message> held;  // by event id
  Time trusted_until{};
};

class World {
 public:
  World(std::uint64_t seed, Ordering ordering) : random_(seed), ordering_(ordering) {
    for (std::size_t i = 0; i < 3; ++i) actors_.push_back(new_actor());
  }

  void run() {
    for (int step = 0; step < kSteps; ++step) {
      if (random_.chance(0.4)) insert();
      if (random_.chance(0.3)) advance(std::chrono::milliseconds(random_.below(4000)));
      if (random_.chance(0.02)) advance(kTerm + 1s);
      act(actors_[random_.below(actors_.size())]);
    }
    drain();
  }

 private:
  Actor new_actor() {
    Actor actor;
    actor.client = std::make_unique<Client>(*fixture_);
    actor.client->request.ordering = ordering_;
    actor.client->request.term = kTerm;
    return actor;
  }

  void advance(Duration time) {
    now_ += time;
    fixture_->advance(time);
  }

  void insert() {
    Known row;
    row.order = static_cast<int>(rows_.size());
    row.id = "evt" + std::to_string(row.order);
    if (random_.chance(0.8)) row.key = "key" + std::to_string(random_.below(4));
    NewRow inserted;
    inserted.id = row.id;
    if (!row.key.empty()) inserted.ordering_key = row.key;
    if (random_.chance(0.1)) inserted.not_before = std::chrono::seconds(random_.below(20));
    fixture_->insert(inserted);
    if (random_.chance(0.03)) {
      fixture_->refuse_changes(row.id);
      row.refuses = true;
    }
    rows_[row.id] = row;
  }

  void act(Actor& actor) {
    if (random_.chance(0.03)) {
      const bool politely = random_.chance(0.5);
      if (politely) actor.client->store().retire();
      actor = new_actor();
      return;
    }
    LeaseRequest& request = actor.client->request;
    request.limit = random_.below(6);
    request.retry_limit = random_.below(7);
    request.probe = random_.chance(0.1);
    request.recovered = random_.chance(0.2) ? last_epoch_ : 0;
    std::vector<Settlement> verdicts = decide(actor);
    request.holding = actor.held.size() - verdicts.size();
    const Time called = now_;
    Turn turn = actor.client->turn(verdicts);
    take(actor, verdicts, turn, called);
    if (random_.chance(0.1)) {
      const Turn again = actor.client->repeat(verdicts);
      REQUIRE(again.status == TurnStatus::committed);
      if (turn.epoch != 0) CHECK(listed(again) == listed(turn));
      if (turn.epoch == 0) take(actor, verdicts, again, called);
    }
  }

  std::vector<Settlement> decide(Actor& actor) {
    std::vector<Settlement> verdicts;
    for (const auto& [id, message] : actor.held) {
      if (!random_.chance(0.5)) continue;
      const std::uint64_t choice = random_.below(20);
      if (choice < 9) {
        verdicts.push_back(delivered(message));
      } else if (choice < 13) {
        verdicts.push_back(retry(message, std::chrono::milliseconds(random_.below(8000))));
        verdicts.back().waits_for_recovery = random_.chance(0.3);
      } else if (choice < 15) {
        verdicts.push_back(held(message, std::chrono::milliseconds(random_.below(8000))));
      } else if (choice < 16) {
        verdicts.push_back(dead(message, DeadReason::permanent));
      } else {
        verdicts.push_back(released(message));
      }
    }
    return verdicts;
  }

  void take(Actor& actor, const std::vector<Settlement>& verdicts, const Turn& turn, Time called) {
    REQUIRE_MESSAGE(turn.status == TurnStatus::committed, turn.error);
    const bool trusted = called < actor.trusted_until && !turn.leases_lost;
    if (trusted) CHECK(turn.fenced <= doubtful(actor, verdicts));
    for (const Settlement& verdict : verdicts) settle(actor, verdict, trusted);
    if (turn.leases_lost) actor.held.clear();
    if (turn.renewed) actor.trusted_until = called + kTerm;
    if (turn.epoch != 0) {
      CHECK(turn.epoch > last_epoch_);
      last_epoch_ = turn.epoch;
    }
    for (const Message& message : turn.leased) lease(actor, message);
  }

  // Rows that another relay may have settled by a late confirmation.
  std::size_t doubtful(const Actor& actor, const std::vector<Settlement>& verdicts) const {
    std::size_t number = 0;
    for (const auto& [id, message] : actor.held) {
      const bool settled = std::any_of(verdicts.begin(), verdicts.end(), [&](const auto& verdict) {
        return verdict.row == message.row;
      });
      if (settled && rows_.at(id).uncertain) ++number;
    }
    return number;
  }

  // What a verdict under a lease that is still good does to the row, as far as it is certain.
  void settle(Actor& actor, const Settlement& verdict, bool trusted) {
    const auto found = std::find_if(actor.held.begin(), actor.held.end(),
                                    [&](const auto& one) { return one.second.row == verdict.row; });
    REQUIRE(found != actor.held.end());
    Known& row = rows_.at(found->first);
    actor.held.erase(found);
    row.uncertain = row.uncertain || !trusted;
    if (!trusted && verdict.verdict != Verdict::delivered) return;
    row.charges += verdict.charge;
    if (verdict.verdict == Verdict::delivered) row.decided = true;
    if (verdict.verdict == Verdict::dead) row.decided = row.dead = true;
  }

  void lease(Actor& actor, const Message& message) {
    Known& row = rows_.at(message.id);
    CHECK_FALSE((row.decided && !row.uncertain));
    for (const Actor& other : actors_) {
      if (&other == &actor || now_ >= other.trusted_until) continue;
      CHECK_MESSAGE(!other.held.contains(message.id), message.id);
    }
    if (!row.uncertain) CHECK(message.history.retry_count == row.charges);
    actor.held[message.id] = message;
    if (ordering_ == Ordering::key && !row.key.empty()) check_order(actor, row);
  }

  // Every earlier row of the key is decided, or held by the same relay.
  void check_order(const Actor& actor, const Known& row) {
    for (const auto& [id, earlier] : rows_) {
      if (earlier.key != row.key || earlier.order >= row.order) continue;
      const bool fine = earlier.decided || earlier.uncertain || actor.held.contains(id);
      CHECK_MESSAGE(fine, row.id, " overtook ", id);
    }
  }

  // Whatever has happened, one relay brings all rows to an end that nothing holds back.
  void drain() {
    advance(kTerm + 1s);
    actors_.clear();
    actors_.push_back(new_actor());
    Actor& last = actors_[0];
    LeaseRequest& request = last.client->request;
    request.dead_blocks_key = false;
    std::vector<Settlement> verdicts;
    for (int idle = 0; idle < 30;) {
      const Turn turn = last.client->turn(verdicts);
      REQUIRE_MESSAGE(turn.status == TurnStatus::committed, turn.error);
      verdicts.clear();
      for (const Message& message : turn.leased) {
        const Known& row = rows_.at(message.id);
        CHECK_FALSE((row.decided && !row.uncertain));
        rows_.at(message.id).decided = true;
        verdicts.push_back(delivered(message));
      }
      idle = turn.leased.empty() ? idle + 1 : 0;
      advance(1s);
    }
    for (const auto& [id, row] : rows_) {
      if (row.uncertain) continue;
      CHECK_MESSAGE(row.decided, id);
      const std::string expected = row.dead ? "DeadLettered" : "Processed";
      if (!row.refuses) CHECK(fixture_->read(id).status == expected);
    }
    const auto backlog = fixture_->open_desk()->backlog();
    REQUIRE_MESSAGE(backlog.ok(), backlog.error);
    CHECK(backlog.value.pending == 0);
    CHECK(backlog.value.failed == 0);
    CHECK(backlog.value.leased == 0);
  }

  std::unique_ptr<StoreFixture> fixture_ = make_store_fixture();
  Random random_;
  Ordering ordering_;
  Time now_{};
  std::vector<Actor> actors_;
  std::map<std::string, Known> rows_;
  LeaseId last_epoch_ = 0;
};

std::uint64_t histories() { return make_store_fixture()->histories(); }

TEST_CASE("several relays at random never share a row, and bring every row to its end") {
  const std::uint64_t last = histories();
  for (std::uint64_t seed = 1; seed <= last; ++seed) {
    CAPTURE(seed);
    World(seed, Ordering::none).run();
  }
}

TEST_CASE("several relays at random never overtake within a key") {
  const std::uint64_t last = histories();
  for (std::uint64_t seed = 1; seed <= last; ++seed) {
    CAPTURE(seed);
    World(1000 + seed, Ordering::key).run();
  }
}

}  // namespace
}  // namespace outbox::conformance
