#include "storage/postgres/postgres_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <iterator>
#include <utility>

namespace outbox::postgres {
namespace {

constexpr std::size_t kCarefulTurns = 1000;
constexpr std::size_t kWaryTurns = 200;
constexpr std::size_t kRemainderMax = 10'000;  // rows
constexpr Duration kAgainInterval = std::chrono::seconds{1};
constexpr std::size_t kTakeOverMax = 1000;  // leases a turn
constexpr Duration kExamineInterval = std::chrono::milliseconds{500};
constexpr int kTriesMax = 3;
constexpr Duration kPauseMin = std::chrono::milliseconds{100};
constexpr Duration kPauseMax = std::chrono::seconds{5};
constexpr Duration kTermUnknown = std::chrono::seconds{30};

// What was found out in a transaction that must not go on.
struct StartAnew {};
struct NotRegistered {};

// What a selection has remembered is wrong if its transaction is undone.
class Undo {
 public:
  explicit Undo(Selector& selector)
      : selector_(selector), exceptions_(std::uncaught_exceptions()) {}
  ~Undo() {
    if (std::uncaught_exceptions() > exceptions_) selector_.start_over();
  }
  Undo(const Undo&) = delete;
  Undo& operator=(const Undo&) = delete;

 private:
  Selector& selector_;
  int exceptions_;
};

std::chrono::microseconds rounded_up(Duration time) {
  return std::chrono::ceil<std::chrono::microseconds>(time);
}

}  // namespace

PostgresStore::PostgresStore(const StoreSettings& settings, const Clock& clock, Bell& bell,
                             std::string now)
    : settings_(settings),
      clock_(clock),
      now_(std::move(now)),
      random_(random_seed()),
      bell_(bell),
      listener_(bell) {
  location_of(settings);
  mapping_of(settings);
  identity_.incarnation = new_incarnation();
}

Turn PostgresStore::turn(const TurnRequest& request) {
  if (skips(request)) {
    Turn nothing;
    nothing.status = TurnStatus::committed;
    if (session_->circuits.shared()) nothing.verdict = SharedVerdict{};
    nothing.next_due = idle_pace_.next_due(clock_.now());
    return nothing;
  }
  listener_.disarm();
  forget_notified();
  try {
    Turn turn = attempt(request);
    if (!turn.more) listen();
    return turn;
  } catch (const Busy& error) {
    return busy(error.what());
  } catch (const SchemaChanged& error) {
    close();
    const int changes = count_schema_change(request.number);
    // On a new connection again: not our statements are out of date, but a row's own trigger.
    if (changes > 1) careful_turns_ = kCarefulTurns;
    return changes > 3 ? refuse(TurnStatus::failed, error.what()) : busy(error.what());
  } catch (const Unusable& error) {
    close();
    return refuse(TurnStatus::unusable, error.what());
  } catch (const std::exception& error) {
    if (session_ && !session_->connection.usable()) close();
    return refuse(TurnStatus::failed, error.what());
  }
}

// Nothing was told since a look found nothing, and this one asks for the same.
bool PostgresStore::skips(const TurnRequest& request) {
  const LeaseRequest& lease = request.lease;
  const bool asks_again = request.settlements.empty() && !request.renew && !request.circuit &&
                          lease.limit > 0 && !lease.probe &&
                          lease.recovered == idle_request_.recovered &&
                          lease.ordering == idle_request_.ordering &&
                          lease.dead_blocks_key == idle_request_.dead_blocks_key;
  const bool heard =
      !session_ || !listener_.armed() || is_due_again(clock_.now()) || !gone_.keys.empty();
  return asks_again && !heard && idle_pace_.skips(clock_.now());
}

Turn PostgresStore::attempt(const TurnRequest& request) {
  const Time called = clock_.now();
  const bool repeated = last_written_ == request.number;
  for (int tries = 0; tries < kTriesMax + static_cast<int>(request.settlements.size()); ++tries) {
    open();
    session_->connection.begin_work();
    session_->settler.set_careful(careful_turns_ > 0, schema_changed_ == request.number);
    session_->settler.set_wary(wary_turns_ > 0);
    Work work;
    work.request = &request;
    work.called = called;
    work.repeated = repeated;
    try {
      const Undo undo(session_->selector);
      Transaction transaction(session_->connection, Transaction::Kind::write);
      run(work);
      transaction.commit();
      return committed(work);
    } catch (const StartAnew&) {
      become_new();
    } catch (const NotRegistered&) {
      register_self();
    } catch (const ServerError& error) {
      // Perhaps a row refuses its verdict: whichever statement it was met with, since they travel
      // together, and some constraints are looked at no sooner than at the commit. One by one it
      // can be told which.
      if (careful_turns_ > 0 || !is_refusal(error)) throw;
      careful_turns_ = kCarefulTurns;
    } catch (const Busy&) {
      if (wary_turns_ > 0) throw;
      wary_turns_ = kWaryTurns;
    }
  }
  return busy("the turn has to be started over all the time");
}

void PostgresStore::open() {
  if (session_) return;
  const Time now = clock_.now();
  if (now < try_again_) {
    if (unusable_) throw Unusable(problem_);
    throw Lost(problem_);
  }
  const auto wait = [&](const std::exception& error, bool unusable) {
    pause_ = std::clamp(pause_ * 2, kPauseMin, kPauseMax);
    // Replicas must not come back all at once.
    try_again_ = clock_.now() + pause_ / 2 + pause_ / 100 * static_cast<int>(random_.below(50));
    problem_ = error.what();
    unusable_ = unusable;
  };
  try {
    session_ = std::make_unique<Session>(settings_, now_);
  } catch (const Unusable& error) {
    wait(error, true);
    throw;
  } catch (const std::exception& error) {
    wait(error, false);
    throw;
  }
  pause_ = Duration{0};
  try_again_ = {};
}

// In a transaction of its own: the next one finds the row, whatever becomes of it.
void PostgresStore::register_self() {
  Transaction transaction(session_->connection, Transaction::Kind::write);
  Registration& registration = session_->registration;
  const ServerTime now = registration.look(identity_, false).now;
  for (const std::int64_t earlier : identity_.earlier) registration.take_back(earlier);
  registration.write(identity_, now + rounded_up(kTermUnknown), now);
  transaction.commit();
  identity_.registered = true;
  identity_.earlier.clear();
}

// The turn's work between the start and the end of its transaction. False: nothing was written.
bool PostgresStore::run(Work& work) {
  const TurnRequest& request = *work.request;
  const bool knows_to_write = !request.settlements.empty() || request.renew || request.circuit ||
                              work.repeated || is_due_again(work.called) || !gone_.keys.empty();
  look(work, knows_to_write);
  const bool must_write = knows_to_write || !work.scenery.ended.empty();
  if (must_write && begin_writing(work)) return true;
  if (must_write) {
    settle(work);
    tell(work);
    take_over(work);
  }
  const Selection selection = select(work);
  if (!must_write) {
    if (selection.rows.empty()) {
      work.idle = is_idle(work, selection);
      return false;
    }
    begin_writing(work);
  }
  const bool asks_for_place = request.lease.limit == 0 || !selection.rows.empty();
  if (!asks_for_place || may_lease(work)) {
    lease(work, selection);
  } else {
    sign(work, work.turn.epoch);
  }
  return true;
}

void PostgresStore::look(Work& work, bool knows_to_write) {
  const bool examine = !examined_at_ || work.called - *examined_at_ >= kExamineInterval;
  Registration& registration = session_->registration;
  if (knows_to_write && identity_.registered) {
    auto looking = registration.send_look_and_lock(identity_);
    // A repeated turn may have been applied: then there is nothing to settle.
    if (!work.repeated) {
      work.settling = session_->settler.begin(work.request->settlements, identity_.incarnation);
    }
    work.scenery = registration.take(std::move(looking), identity_, examine, work.mark);
    work.locked = true;
  } else {
    work.scenery = registration.look(identity_, examine);
  }
  work.examined = examine;
  const Scenery& scenery = work.scenery;
  if (scenery.replica) {
    throw Unusable(fmt::format("{} is a read replica now: connect to the primary",
                               session_->connection.label()));
  }
  if (scenery.table != session_->sql.table().oid) {
    throw SchemaChanged(fmt::format("the table {} was replaced", session_->sql.outbox()));
  }
  if (scenery.circuit_open && session_->circuits.shared())
    work.circuit = session_->circuits.read(scenery.now);
}

// Finds out what the database knows of this relay. True if this very turn was applied before.
bool PostgresStore::begin_writing(Work& work) {
  if (!identity_.registered) throw NotRegistered{};
  last_written_ = work.request->number;
  if (!work.locked) work.mark = session_->registration.lock(identity_);
  const auto& mark = work.mark;
  if (!mark) throw StartAnew{};  // another relay has taken over from us
  // A backup was restored: what stands there of us is not what we have done since.
  if (mark->epoch < identity_.epoch) throw StartAnew{};
  work.holder = {identity_.incarnation, mark->next_epoch, work.scenery.now};
  work.turn.epoch = mark->next_epoch;
  if (!work.repeated || mark->turn != work.request->number) {
    next_remainder_ = remainder_;
    return false;
  }
  work.turn.epoch = mark->epoch;
  work.turn.more = true;
  Leased leased = session_->reader.leased_under(identity_.incarnation, mark->epoch);
  work.turn.leased = session_->reader.load(leased.rows, mark->epoch,
                                           work.request->lease.payload_max, work.scenery.now);
  const auto gone = Leases::gone(work.turn.leased, leased.rows);
  leased.left.insert(leased.left.end(), gone.begin(), gone.end());
  session_->leases.end(leased.left, identity_.incarnation, mark->epoch);
  sign(work, mark->epoch);
  return true;
}

void PostgresStore::settle(Work& work) {
  Settler& settler = session_->settler;
  if (!work.settling) {
    work.settling = settler.begin(work.request->settlements, identity_.incarnation);
  }
  settler.go_on(*work.settling, work.holder, work.settled);
  session_->selector.settled(work.settled.freed);
  session_->selector.released(work.settled.released);
  session_->leases.end(gone_.keys, identity_.incarnation, gone_.epoch);
  // What is chosen must be read after all that this turn changes.
  const bool all_sent = work.settling->update && work.scenery.ended.empty() &&
                        !work.request->circuit && !is_due_again(work.called);
  if (all_sent && may_select(work)) begin_selection(work);
  finish_settling(work);
}

void PostgresStore::finish_settling(Work& work) {
  Settled& settled = work.settled;
  const std::size_t freed = settled.freed.size();
  session_->settler.finish(*work.settling, work.holder, settled);
  session_->selector.settled(
      {settled.freed.begin() + static_cast<std::ptrdiff_t>(freed), settled.freed.end()});
  if (settled.locked > 0) wary_turns_ = kWaryTurns;
  if (is_due_again(work.called)) write_again(work);
  const auto take = [](auto& all, auto& more) {
    const std::size_t room = kRemainderMax - std::min(kRemainderMax, all.size());
    more.resize(std::min(more.size(), room));
    std::move(more.begin(), more.end(), std::back_inserter(all));
  };
  take(next_remainder_.beside, settled.beside);
  take(next_remainder_.postponed, settled.postponed);
  work.turn.fenced = settled.fenced;
  work.turn.isolated = settled.isolated;
  work.turn.isolated_error = settled.isolated_error;
}

bool PostgresStore::is_due_again(Time now) const {
  return !remainder_.empty() && now - tried_again_ >= kAgainInterval;
}

// What others had locked, once they have let it go.
void PostgresStore::write_again(Work& work) {
  Settler& settler = session_->settler;
  Settled settled;
  settler.set_wary(true);
  next_remainder_.beside = settler.write_again(remainder_.beside, work.holder);
  settler.settle(remainder_.postponed, work.holder, settled);
  next_remainder_.postponed = std::move(settled.postponed);
  work.settled.fenced += settled.fenced;
  settler.set_wary(wary_turns_ > 0);
  session_->selector.settled(settled.freed);
  tried_again_ = work.called;
}

void PostgresStore::tell(Work& work) {
  CircuitBoard& circuits = session_->circuits;
  if (!work.request->circuit || !circuits.shared()) return;
  work.circuit = circuits.lock(work.scenery.now);
  if (!work.circuit.take_in(*work.request->circuit, identity_.incarnation)) return;
  circuits.write(work.circuit, work.scenery.now);
}

void PostgresStore::take_over(Work& work) {
  if (work.scenery.ended.empty()) return;
  for (const std::int64_t ended : work.scenery.ended) {
    TakeOver taken =
        session_->registration.take_over(ended, work.holder, kTakeOverMax, session_->settler);
    work.turn.taken_over += taken.leases;
    for (BuriedRow& row : taken.buried) work.turn.buried.push_back(std::move(row));
  }
  if (work.turn.taken_over > 0) {
    session_->selector.start_over();
    work.examined = false;  // there may be more
  }
}

Ahead PostgresStore::sign(Work& work, std::optional<LeaseId> epoch) {
  const Duration term = work.request->lease.term;
  const auto until =
      term > Duration{0} ? std::optional(work.scenery.now + rounded_up(term)) : std::nullopt;
  work.turn.renewed = term > Duration{0};
  return session_->registration.sign(identity_, work.request->number, epoch, until);
}

// The transaction is on disk: now what it changed may be believed.
Turn PostgresStore::committed(Work& work) {
  Turn& turn = work.turn;
  turn.status = TurnStatus::committed;
  turn.circuit_held = work.scenery.circuit_held;
  turn.why_held = work.scenery.why_held;
  turn.paused = work.scenery.paused;
  if (session_->circuits.shared()) turn.verdict = work.circuit.verdict_for(identity_.incarnation);
  if (work.examined) examined_at_ = work.called;
  if (turn.epoch > 0) {
    identity_.epoch = turn.epoch;
    remainder_ = next_remainder_;
    gone_ = std::move(work.gone);
    if (careful_turns_ > 0) --careful_turns_;
    if (wary_turns_ > 0) --wary_turns_;
    if (turn.isolated > 0) careful_turns_ = kCarefulTurns;
  }
  turn.leases_lost = std::exchange(leases_lost_, false);
  if (work.idle) {
    idle_request_ = work.request->lease;
    idle_pace_.found_nothing(work.called, turn.next_due);
  } else {
    idle_pace_.start_over();
  }
  return std::move(turn);
}

Turn PostgresStore::refuse(TurnStatus status, std::string error) {
  Turn turn;
  turn.status = status;
  turn.error = std::move(error);
  turn.leases_lost = std::exchange(leases_lost_, false);
  return turn;
}

Turn PostgresStore::busy(std::string error) {
  Turn turn;
  turn.status = TurnStatus::busy;
  turn.error = std::move(error);
  const auto least = std::chrono::milliseconds(1);
  turn.rest = least + std::chrono::microseconds(random_.below(5000));
  return turn;
}

// What was leased before is void: it was given to another relay, or stands in another database.
void PostgresStore::become_new() {
  leases_lost_ = true;
  identity_.earlier.push_back(identity_.incarnation);
  identity_.incarnation = new_incarnation();
  identity_.registered = false;
  identity_.epoch = 0;
  gone_ = {};
  if (session_) session_->selector.start_over();
}

// What is about to be looked at need not be told of again.
void PostgresStore::forget_notified() {
  if (!session_ || !session_->connection.listens()) return;
  try {
    session_->connection.take_notification();
  } catch (const Lost&) {
    close();
  }
}

// Until the next turn, also while rows travel: others must not wait for them. What was notified
// during this one may have come after its look.
void PostgresStore::listen() {
  Connection& connection = session_->connection;
  if (!connection.listens()) return;
  try {
    if (connection.take_notification()) return bell_.hint();
    listener_.arm(connection.socket());
  } catch (const Lost&) {
    close();  // the turn is done all the same
  }
}

void PostgresStore::close() {
  session_.reset();
  idle_pace_.start_over();
}

void PostgresStore::write_for_the_last_time() {
  session_->settler.set_careful(true, false);
  Transaction transaction(session_->connection, Transaction::Kind::write);
  const ServerTime now = session_->registration.look(identity_, false).now;
  remainder_.beside = session_->settler.write_again(remainder_.beside,
                                                    {identity_.incarnation, identity_.epoch, now});
  transaction.commit();
}

void PostgresStore::retire() {
  listener_.disarm();
  if (!identity_.registered) return;
  try {
    if (!session_) open();
    session_->connection.begin_work();
    Transaction transaction(session_->connection, Transaction::Kind::write);
    session_->registration.end(identity_);
    session_->circuits.leave(identity_.incarnation);
    transaction.commit();
    if (!remainder_.beside.empty()) write_for_the_last_time();
    identity_.registered = false;
    identity_.incarnation = new_incarnation();
    identity_.epoch = 0;
    gone_ = {};
    session_->selector.start_over();
  } catch (const std::exception&) {
    // The leases end by their term.
  }
}

}  // namespace outbox::postgres
