#include "tests/conformance/isolation_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace outbox::conformance::isolation {
namespace {

using namespace std::chrono_literals;
using Kind = SteppedSession::Kind;
using Place = SteppedSession::Place;

constexpr Duration kTerm = 30s;
constexpr Duration kLapse = kTerm + 1s;
constexpr int kDrainTurns = 20;
constexpr std::size_t kTrailMax = 100;  // of a statement
constexpr auto kDeadlockLimit = 60s;

Settlement settlement_of(const Message& message, Verdict verdict) {
  switch (verdict) {
    case Verdict::delivered:
      return delivered(message);
    case Verdict::retry:
      return retry(message, 0s);
    case Verdict::held:
      return held(message, 1h);
    case Verdict::dead:
      return dead(message, DeadReason::permanent);
    case Verdict::released:
      return released(message);
  }
  return {};
}

std::string name_of(const Step& step) {
  static const std::map<Act, std::string> names{
      {Act::turn, "turn"},       {Act::retire, "retires"},       {Act::begin, "begins"},
      {Act::insert, "inserts "}, {Act::commit, "commits"},       {Act::roll_back, "rolls back"},
      {Act::lapse, "lapses"},    {Act::redrive, "drives again"}, {Act::repeat, "repeats it"}};
  if (step.act != Act::turn) return names.at(step.act) + step.row.id;
  static const std::map<Verdict, std::string> verdicts{{Verdict::delivered, "delivered"},
                                                       {Verdict::retry, "retry"},
                                                       {Verdict::dead, "dead"},
                                                       {Verdict::released, "released"},
                                                       {Verdict::held, "held"}};
  std::string text;
  if (step.verdict) text += "settles " + verdicts.at(*step.verdict);
  if (!step.verdict && step.limit == 0) return "renews";
  if (step.limit > 0) text += fmt::format("{}leases {}", text.empty() ? "" : " and ", step.limit);
  return text;
}

}  // namespace

// A relay, or another session, for which nothing but its script counts.
struct History::Session {
  std::string name;
  const Script* script = nullptr;
  std::size_t next = 0;
  std::size_t busy_at = SIZE_MAX;  // so many steps were done when it met a busy database

  Player* player = nullptr;  // unless its steps are a single statement each
  Place place = Place::over;
  std::size_t statement = 0;  // of the turn
  std::size_t begun_at = 0;   // so many steps were done
  Time called{};
  bool met_others = false;  // in the midst of a turn
  Asked asked;
  std::vector<Settlement> settlements;
  TurnRequest request;
  Turn turn;
  bool redriven = false;
  Effect effect;
  std::vector<Asked::Verdict> postponed;
  Effect before;  // of the turn that is repeated

  // What it believes to hold, in order, and how long it may.
  std::vector<Message> held;
  Time trusted_until{};

  const Step& step() const { return (*script)[next]; }
  bool at_end() const { return next == script->size(); }
};

History::History(Stage& stage, std::vector<Player>& players, const Family& family)
    : stage_(stage), players_(players), family_(family) {}

History::~History() {
  for (const auto& session : sessions_) {
    if (session->place != Place::over) session->player->session.reset();
  }
  if (in_transaction_) stage_.roll_back();
}

void History::fail(const std::string& what) const {
  std::string text = what + ", after:";
  for (const std::string& one : trail_) text += "\n  " + one;
  throw Violation(text);
}

void History::run(Path& path) {
  prepare();
  play(path);
  drain();
}

void History::play(Path& path) {
  while (true) {
    look_at_waiting();
    std::vector<Session*> choices = able();
    if (choices.empty() && end_deadlock()) continue;
    if (choices.empty()) break;
    const bool midway = current_ != nullptr && current_->place == Place::statement;
    if (midway && interruptions_ == family_.interruptions) {
      choices = {current_};
    } else if (midway) {
      std::erase(choices, current_);
      choices.insert(choices.begin(), current_);
    }
    // Whom the server chooses to end a deadlock may differ: what comes after it is no fork.
    const bool forks = choices.size() > 1 && deadlocks_ == 0;
    Session* chosen = choices[forks ? path.choose(choices.size()) : 0];
    if (midway && chosen != current_) ++interruptions_;
    current_ = chosen;
    step(*chosen);
  }
  for (const auto& session : sessions_) {
    if (!session->at_end()) fail(fmt::format("{} can't go on", session->name));
  }
}

// The server ends it after a while, by refusing a statement. False: nobody waits.
bool History::end_deadlock() {
  if (!anyone_at(Place::lock)) return false;
  ++deadlocks_;
  trail_.emplace_back("all wait for each other");
  const auto until = std::chrono::steady_clock::now() + kDeadlockLimit;
  while (!look_at_waiting()) {
    if (std::chrono::steady_clock::now() > until) fail("a deadlock has no end");
  }
  return true;
}

void History::prepare() {
  for (const Script& script : family_.relays) {
    add(fmt::format("relay {}", sessions_.size() + 1), script, true);
  }
  for (const Script& script : family_.operators) add("operator", script, true);
  for (const Script& script : family_.others) add("another", script, false);
  stage_.clear();
  reference_.emplace(family_.ordering, stage_.view());
  // Others may have ended its last identity.
  for (std::size_t i = 0; i < family_.relays.size(); ++i) run_whole(*sessions_[i], {});
  trail_.clear();
  let_time_pass();  // nothing is remembered for so long
  for (const NewRow& row : family_.rows) stage_.fixture().insert(row);
  reference_->rows_came(stage_.view(), family_.rows);
  for (const std::size_t number : family_.prelude) {
    Session& session = *sessions_[number];
    const std::size_t next = session.next + 1;
    while (session.next < next) step(session);
  }
}

void History::add(const std::string& name, const Script& script, bool plays) {
  sessions_.push_back(std::make_unique<Session>());
  if (plays) sessions_.back()->player = &players_[sessions_.size() - 1];
  sessions_.back()->name = name;
  sessions_.back()->script = &script;
}

void History::let_time_pass() {
  now_ += kLapse;
  stage_.fixture().advance(kLapse);
  reference_->time_passed(stage_.view());
}

bool History::anyone_at(Place place) const {
  return std::any_of(sessions_.begin(), sessions_.end(),
                     [&](const auto& session) { return session->place == place; });
}

// Who can take a step now.
std::vector<History::Session*> History::able() const {
  std::vector<Session*> result;
  for (const auto& session : sessions_) {
    if (session->at_end() || session->place == Place::lock || session->busy_at == done_) continue;
    result.push_back(session.get());
  }
  return result;
}

void History::step(Session& session) {
  if (session.player != nullptr) return step_player(session);
  last_ = &session;
  trail_.push_back(fmt::format("{} {}", session.name, name_of(session.step())));
  step_other(session);
}

std::string History::where(const Session& session) {
  switch (session.place) {
    case Place::statement:
      return ", the next is " + session.player->session->statement().substr(0, kTrailMax);
    case Place::lock:
      return ", waits with " + session.player->session->statement().substr(0, kTrailMax);
    case Place::over:
      return " and is done";
  }
  return {};
}

void History::step_player(Session& session) {
  if (session.place == Place::over) {
    begin_turn(session);
    trail_.push_back(fmt::format("{} {}", session.name, name_of(session.step())));
  } else {
    if (++session.statement == 1 || last_ != &session) trail_.emplace_back();
    session.place = session.player->session->pass();
    trail_.back() =
        fmt::format("{} has done {} statements{}", session.name, session.statement, where(session));
  }
  last_ = &session;
  session.met_others =
      session.met_others || std::any_of(sessions_.begin(), sessions_.end(), [&](const auto& other) {
        return other.get() != &session && other->place != Place::over;
      });
  // Where nobody can come in between, nothing needs to be looked at.
  const bool alone = interruptions_ == family_.interruptions && !anyone_at(Place::lock);
  if (session.place != Place::statement || !alone) look(session);
}

// Those that waited for what this step has set free go on by themselves.
bool History::look_at_waiting() {
  bool any = false;
  for (const auto& session : sessions_) {
    if (session->place != Place::lock) continue;
    session->place = session->player->session->look();
    if (session->place == Place::lock) continue;
    any = true;
    trail_.push_back(fmt::format("{} goes on{}", session->name, where(*session)));
    last_ = nullptr;
    look(*session);
  }
  return any;
}

void History::begin_turn(Session& session) {
  const Step& step = session.step();
  SteppedSession& stepped = *session.player->session;
  const bool anew = session.busy_at == SIZE_MAX && step.act != Act::repeat;
  if (step.act == Act::repeat && session.busy_at == SIZE_MAX) session.before = session.effect;
  session.statement = 0;
  session.begun_at = done_;
  session.effect = {};
  session.called = now_;
  session.met_others = false;
  if (step.act == Act::retire) {
    session.asked = {.retires = true};
    session.held.clear();
    session.place = stepped.start(Kind::patient, [&] { stepped.store().retire(); });
  } else if (step.act == Act::redrive) {
    session.asked = {.redrives = true};
    session.place = stepped.start(
        Kind::patient, [&] { session.redriven = stepped.desk().redrive({}, "again", {}).ok(); });
  } else {
    if (anew) ask(session);
    session.place =
        stepped.start(Kind::turn, [&] { session.turn = stepped.store().turn(session.request); });
  }
}

void History::ask(Session& session) {
  const Step& step = session.step();
  session.before = {};
  session.settlements.clear();
  session.asked = {
      .number = ++session.player->number, .postponed = session.postponed, .limit = step.limit};
  std::set<std::string> keys;
  for (const Message& message : session.held) {
    if (!step.verdict) break;
    const bool first = !message.ordering_key || keys.insert(*message.ordering_key).second;
    // As a relay does: what follows a row that has to wait is given back with it.
    const bool follows = family_.ordering == Ordering::key && !first;
    const Verdict verdict =
        follows && step.verdict != Verdict::delivered ? Verdict::released : *step.verdict;
    session.settlements.push_back(settlement_of(message, verdict));
    session.asked.verdicts.push_back({message.id, session.settlements.back()});
  }
  if (step.verdict) session.held.clear();
  TurnRequest& request = session.request;
  request.number = session.player->number;
  request.settlements = session.settlements;
  request.renew = step.limit == 0;
  request.lease = {.limit = step.limit,
                   .retry_limit = step.limit,
                   .bytes = 1u << 20,
                   .payload_max = 1u << 20,
                   .term = kTerm,
                   .holding = session.held.size(),
                   .ordering = family_.ordering};
}

// What the step has changed that others see.
void History::look(Session& session) {
  try {
    const auto effect =
        reference_->session_moved(stage_.view(), session.asked, session.player->incarnation);
    if (effect) {
      const bool known =
          session.before.committed && session.before.incarnation == effect->incarnation;
      if (session.effect.committed || known) throw Violation("a turn was applied twice");
      session.effect = *effect;
      session.player->incarnation = effect->incarnation;
    }
    if (session.place == Place::over) end_turn(session);
  } catch (const Violation& violation) {
    fail(violation.what());
  }
}

void History::end_turn(Session& session) {
  const Act act = session.step().act;
  const bool takes_turn = act == Act::turn || act == Act::repeat;
  const bool busy = takes_turn && session.turn.status == TurnStatus::busy;
  if (busy || (act == Act::redrive && !session.redriven)) {
    if (session.effect.committed) throw Violation("a busy turn was applied");
    session.busy_at = session.begun_at;
    ++busy_;
    return;
  }
  if (takes_turn) take(session);
  session.busy_at = SIZE_MAX;
  ++session.next;
  ++done_;
}

// The turn's answer: as the database has it, and true by what all relays believe.
void History::take(Session& session) {
  const Turn& turn = session.turn;
  if (turn.status != TurnStatus::committed) throw Violation("the turn failed: " + turn.error);
  if (turn.isolated > 0 || !turn.buried.empty()) throw Violation("a row was given up");
  if (!session.effect.committed && session.before.committed) {
    // It was applied the first time: nothing was settled now.
    session.effect = std::exchange(session.before, {});
    session.effect.fenced = session.effect.too_late = session.effect.taken_over = 0;
  }
  const Effect& effect = session.effect;
  if (family_.interruptions == 0 && !effect.postponed.empty()) {
    throw Violation("a confirmation was put off, though nobody else is at work");
  }
  session.postponed.insert(session.postponed.end(), effect.postponed.begin(),
                           effect.postponed.end());
  if (turn.epoch != effect.epoch) throw Violation("the turn tells a wrong epoch");
  const std::size_t put_off = session.met_others ? effect.too_late : 0;
  const bool fenced = turn.fenced <= effect.fenced && turn.fenced + put_off >= effect.fenced;
  if (!fenced || turn.taken_over != effect.taken_over) {
    throw Violation(
        fmt::format("{} fenced and {} taken over were counted, but there were {} and {}",
                    turn.fenced, turn.taken_over, effect.fenced, effect.taken_over));
  }
  require_told(session);
  const std::size_t next = session.next + 1;
  if (next < session.script->size() && (*session.script)[next].act == Act::repeat) return;
  if (turn.leases_lost) session.held.clear();
  if (turn.renewed) session.trusted_until = session.called + kTerm;
  for (const Message& message : turn.leased) {
    require_sole_holder(session, message);
    session.held.push_back(message);
  }
}

// Each row that was leased, and no other. A late confirmation, or another relay that came after the
// end of the leases, may have changed it between the commit and this answer.
void History::require_told(const Session& session) const {
  const Effect& effect = session.effect;
  std::set<std::string> told;
  for (const Message& message : session.turn.leased) {
    told.insert(message.id);
    if (message.lease != effect.epoch) throw Violation(message.id + " tells a wrong lease");
  }
  for (const std::string& id : effect.leased) {
    const RowView* row = find_row(reference_->view(), id);
    const bool kept = row->lease && row->lease->epoch == effect.epoch;
    if (told.erase(id) == 0 && kept && row->state != "Processed") {
      throw Violation(id + " was leased without a word");
    }
  }
  if (!told.empty()) throw Violation(*told.begin() + " is told to be leased, but is not");
}

// Promise P6.
void History::require_sole_holder(const Session& session, const Message& message) const {
  if (now_ >= session.trusted_until) return;
  for (const auto& other : sessions_) {
    if (other.get() == &session || now_ >= other->trusted_until) continue;
    for (const Message& theirs : other->held) {
      if (theirs.id == message.id) {
        throw Violation(fmt::format("{} is held by {}, too", message.id, other->name));
      }
    }
  }
}

void History::step_other(Session& session) {
  const Step& step = session.step();
  try {
    switch (step.act) {
      case Act::begin:
        stage_.begin();
        in_transaction_ = true;
        inserted_.clear();
        break;
      case Act::insert:
        if (!stage_.insert(step.row)) {
          session.busy_at = done_;
          trail_.back() += ", but the database is busy";
          return;
        }
        inserted_.push_back(step.row);
        break;
      case Act::commit:
        stage_.commit();
        in_transaction_ = false;
        reference_->rows_came(stage_.view(), inserted_);
        break;
      case Act::roll_back:
        stage_.roll_back();
        in_transaction_ = false;
        break;
      case Act::lapse:
        let_time_pass();
        break;
      case Act::turn:
      case Act::repeat:
      case Act::retire:
      case Act::redrive:
        throw Violation("who does that?");
    }
    if (step.act != Act::commit) reference_->time_passed(stage_.view());
  } catch (const Violation& violation) {
    fail(violation.what());
  }
  session.busy_at = SIZE_MAX;
  ++session.next;
  ++done_;
}

void History::run_whole(Session& session, const Step& step) {
  const Script script{step};
  const Script* before = std::exchange(session.script, &script);
  const std::size_t next = std::exchange(session.next, 0);
  do {
    session.busy_at = session.busy_at == SIZE_MAX ? SIZE_MAX : 0;
    step_player(session);
    while (session.place == Place::statement) step_player(session);
    if (session.place == Place::lock) fail(session.name + " waits, and nobody else is at work");
  } while (!session.at_end());
  session.script = before;
  session.next = next;
}

// The last relay brings all to an end that the others have left. Promises P1 and P2.
void History::drain() {
  Session& last = *sessions_[family_.relays.size() - 1];
  for (int turns = 0; turns < kDrainTurns; ++turns) {
    let_time_pass();
    trail_.push_back("time passes");
    run_whole(last, settle_and_lease(turns == 0 ? Verdict::released : Verdict::delivered));
    if (last.held.empty() && !reference_->unrest()) return;
  }
  fail("at rest there is " + reference_->unrest().value_or("no end"));
}

}  // namespace outbox::conformance::isolation
