#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/conformance/isolation_history.h"

namespace outbox::conformance::isolation {

Step lease(std::size_t limit) { return {.act = Act::turn, .limit = limit}; }
Step settle(Verdict verdict) { return {.act = Act::turn, .verdict = verdict}; }
Step settle_and_lease(Verdict verdict, std::size_t limit) {
  return {.act = Act::turn, .verdict = verdict, .limit = limit};
}
Step insert(const std::string& id, const std::string& key) {
  Step step{.act = Act::insert, .row = {.id = id}};
  if (!key.empty()) step.row.ordering_key = key;
  return step;
}

std::size_t Path::choose(std::size_t branches) {
  if (at_ == forks_.size()) forks_.push_back({0, branches});
  if (forks_[at_].branches != branches) throw Violation("the same steps lead to something else");
  return forks_[at_++].taken;
}

bool Path::next() {
  at_ = 0;
  while (!forks_.empty() && ++forks_.back().taken == forks_.back().branches) forks_.pop_back();
  return !forks_.empty();
}

void explore(Stage& stage, const Family& family) {
  Path path;
  std::size_t histories = 0;
  std::size_t busy = 0;
  std::size_t deadlocks = 0;
  std::vector<Player> players(family.relays.size() + family.operators.size());
  for (Player& player : players) player.session = stage.open_session();
  do {
    History history(stage, players, family);
    try {
      history.run(path);
    } catch (const Violation& violation) {
      FAIL_CHECK(family.name << ", history " << histories << ": " << std::string(violation.what()));
      return;
    }
    for (Player& player : players) {
      if (player.session->has_waited()) player = {stage.open_session()};
    }
    ++histories;
    busy += history.busy();
    deadlocks += history.deadlocks();
  } while (path.next());
  MESSAGE(fmt::format("{}: {} interleavings, {} busy turns, {} deadlocks", family.name, histories,
                      busy, deadlocks));
  CHECK(histories > 1);
  // Turns that wait for each other are ended by the server, after a second. With one interruption
  // they need not.
  if (family.interruptions < 2) CHECK(deadlocks == 0);
}

}  // namespace outbox::conformance::isolation
