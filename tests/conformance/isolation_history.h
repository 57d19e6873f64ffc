// Scripts of sessions, and all the ways in which their steps can follow each other.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/conformance/isolation_reference.h"
#include "tests/conformance/isolation_stage.h"

namespace outbox::conformance::isolation {

enum class Act {
  turn,  // of a relay: settles all that it holds, if there is a verdict, and leases up to the limit
  repeat,  // the last turn once more, under its number: its answer was lost
  retire,
  begin,  // of the application
  insert,
  commit,
  roll_back,
  lapse,    // of time: all leases that are not renewed after it are over
  redrive,  // of an operator
};

struct Step {
  Act act = Act::turn;
  std::optional<Verdict> verdict = std::nullopt;
  std::size_t limit = 0;
  NewRow row = {};
};

Step lease(std::size_t limit = 10);
Step settle(Verdict verdict);
Step settle_and_lease(Verdict verdict, std::size_t limit = 10);
Step insert(const std::string& id, const std::string& key = "");

using Script = std::vector<Step>;

// Sessions that are at work together.
struct Family {
  std::string name;
  Ordering ordering = Ordering::none;
  std::vector<NewRow> rows = {};  // committed before
  std::vector<Script> relays = {};
  std::vector<Script> operators = {};
  std::vector<Script> others = {};  // the application, time
  // Whose steps are taken before, one after the other: sessions by their number, as they stand
  // above.
  std::vector<std::size_t> prelude = {};
  // How often a turn may be interrupted between two of its statements.
  std::size_t interruptions = 0;
};

// One way through a tree whose branches are only known on the way.
class Path {
 public:
  // Which of so many branches to take.
  std::size_t choose(std::size_t branches);
  // Turns to the next way. False: that was the last one.
  bool next();

 private:
  struct Fork {
    std::size_t taken = 0;
    std::size_t branches = 0;
  };
  std::vector<Fork> forks_;
  std::size_t at_ = 0;
};

// A relay, or an operator, that takes part in one history after the other.
struct Player {
  std::unique_ptr<SteppedSession> session;
  std::uint64_t number = 0;  // of its last turn
  std::int64_t incarnation = 0;
};

// One history of a family.
class History {
 public:
  History(Stage& stage, std::vector<Player>& players, const Family& family);
  ~History();
  // Throws Violation.
  void run(Path& path);

  // What was done, for people.
  const std::vector<std::string>& trail() const { return trail_; }
  std::size_t busy() const { return busy_; }
  std::size_t deadlocks() const { return deadlocks_; }

 private:
  struct Session;

  void prepare();
  void add(const std::string& name, const Script& script, bool plays);
  void let_time_pass();
  void play(Path& path);
  std::vector<Session*> able() const;
  bool anyone_at(SteppedSession::Place place) const;
  void step(Session& session);
  void step_player(Session& session);
  void step_other(Session& session);
  void begin_turn(Session& session);
  void ask(Session& session);
  void look(Session& session);
  void end_turn(Session& session);
  void take(Session& session);
  void require_told(const Session& session) const;
  void require_sole_holder(const Session& session, const Message& message) const;
  bool look_at_waiting();
  bool end_deadlock();
  void drain();
  void run_whole(Session& session, const Step& step);
  static std::string where(const Session& session);
  [[noreturn]] void fail(const std::string& what) const;

  Stage& stage_;
  std::vector<Player>& players_;
  const Family& family_;
  std::vector<std::unique_ptr<Session>> sessions_;
  std::optional<Reference> reference_;
  bool in_transaction_ = false;   // the application
  std::vector<NewRow> inserted_;  // by it
  std::vector<std::string> trail_;
  Session* current_ = nullptr;
  Session* last_ = nullptr;  // that was told of in the trail
  std::size_t interruptions_ = 0;
  std::size_t done_ = 0;  // steps
  std::size_t busy_ = 0;
  std::size_t deadlocks_ = 0;
  Time now_{};
};

// Runs them all, and says how many there were.
void explore(Stage& stage, const Family& family);

}  // namespace outbox::conformance::isolation
