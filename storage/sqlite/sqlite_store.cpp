#include "storage/sqlite/sqlite_store.h"

#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <random>
#include <thread>

#include "storage/sqlite/dialect.h"

namespace outbox::sqlite {
namespace {

constexpr auto kExamineInterval = std::chrono::milliseconds{250};
constexpr auto kLookInterval = std::chrono::seconds{1};
constexpr auto kUnusableInterval = std::chrono::seconds{2};
constexpr auto kRetirePatience = std::chrono::seconds{1};
constexpr auto kPartPause = std::chrono::milliseconds{1};
constexpr std::size_t kCarefulTurns = 1000;
constexpr std::size_t kTakeOverMax = 500;  // leases a turn, so that the write lock is held briefly
constexpr int kReopenMax = 3;

using HoldClock = std::chrono::steady_clock;

bool same_question(const LeaseRequest& one, const LeaseRequest& other) {
  return one.recovered == other.recovered && one.probe == other.probe &&
         one.ordering == other.ordering && one.dead_blocks_key == other.dead_blocks_key &&
         (one.holding == 0) == (other.holding == 0);
}

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

}  // namespace

SqliteStore::SqliteStore(const StoreSettings& settings, Clocks clocks, Bell& bell)
    : settings_(settings),
      mapping_(mapping_of(settings)),
      path_(path_of(settings.url)),
      clocks_(std::move(clocks)),
      random_(random_seed()),
      watcher_(path_, bell) {
  identity_.incarnation = new_incarnation();
}

Turn SqliteStore::turn(const TurnRequest& request) {
  try {
    for (int tries = 0;; ++tries) {
      try {
        return attempt(request);
      } catch (const SchemaChanged&) {
        session_.reset();
        if (tries == kReopenMax) return busy("the schema changes all the time");
      }
    }
  } catch (const Busy& error) {
    return busy(error.what());
  } catch (const Unusable& error) {
    close();
    return refuse(TurnStatus::unusable, error.what());
  } catch (const SQLite::Exception& error) {
    const std::string text = describe(path_, error);
    if (is_busy(error)) return busy(text);
    if (!is_unusable(error)) return refuse(TurnStatus::failed, text);
    close();
    return refuse(TurnStatus::unusable, text);
  } catch (const std::exception& error) {
    return refuse(TurnStatus::failed, fmt::format("{}: {}", path_, error.what()));
  }
}

Turn SqliteStore::attempt(const TurnRequest& request) {
  const Time called = clocks_.boot->now();
  if (session_) require_same_file();
  if (!session_) open();
  observe_others(called);
  std::vector<Ended> ended = examine_peers(called);
  // A repeated turn may have been applied: only the database knows.
  const bool repeated = last_written_ == request.number;
  const bool must_write = !request.settlements.empty() || request.renew || request.circuit ||
                          repeated || !ended.empty() || !vanished_.empty();
  if (must_write) return write(request, ended, called);
  const bool may_lease = request.lease.limit > 0 && !orders_.circuit_held && !orders_.paused;
  if (!may_lease || must_wait(request.lease) || quiet(request.lease, called)) return idle();
  Turn turn;
  if (!look(request.lease, called, turn)) return turn;
  return write(request, ended, called);
}

void SqliteStore::require_same_file() {
  if (!session_->connection.same_file()) {
    become_new();
    throw Unusable(fmt::format(
        "the database {} or its write-ahead log was removed or replaced while it was open; "
        "starting over with what is there now",
        path_));
  }
  if (std::string problem = write_problem(path_); !problem.empty()) throw Unusable(problem);
}

void SqliteStore::open() {
  const Time now = clocks_.boot->now();
  if (!unusable_error_.empty()) {
    const bool same = fingerprint_of(path_) == unusable_fingerprint_;
    if (same && now - unusable_at_ < kUnusableInterval) throw Unusable(unusable_error_);
  }
  unusable_fingerprint_ = fingerprint_of(path_);
  unusable_at_ = now;
  try {
    session_ = std::make_unique<Session>(path_, mapping_, settings_.create_relay_tables,
                                         settings_.broker, clocks_);
  } catch (const Unusable& error) {
    unusable_error_ = error.what();
    throw;
  }
  session_->settler.keep_attempts(settings_.attempts_kept);
  unusable_error_.clear();
  changed_since_selection_ = true;
  changed_since_examination_ = true;
  examined_at_.reset();
  last_look_.reset();
  data_version_ = session_->connection.data_version();
  orders_ = session_->orders();
}

void SqliteStore::observe_others(Time now) {
  const std::int64_t version = session_->connection.data_version();
  if (version == data_version_) return;
  session_->require_same_schema();
  data_version_ = version;
  changed_since_selection_ = true;
  changed_since_examination_ = true;
  last_look_.reset();
  orders_ = session_->orders();
  pace_.others_wrote(now);
}

std::vector<Ended> SqliteStore::examine_peers(Time now) {
  const bool told = watcher_.take_peer_change();
  const bool waited = examined_at_ && now - *examined_at_ >= kExamineInterval &&
                      (changed_since_examination_ || !session_->peers.alone());
  if (examined_at_ && !told && !waited) return {};
  examined_at_ = now;
  changed_since_examination_ = false;
  return session_->peers.examine(identity_.incarnation);
}

// Nobody has written since a look found nothing, and nothing has become due by itself.
bool SqliteStore::quiet(const LeaseRequest& request, Time now) const {
  if (!last_look_ || now - last_look_->at >= kLookInterval) return false;
  if (last_look_->next_due && clocks_.wall() >= *last_look_->next_due) return false;
  return same_question(request, last_look_->request);
}

Turn SqliteStore::idle() const {
  Turn turn;
  turn.status = TurnStatus::committed;
  report_orders(turn);
  if (last_look_ && last_look_->next_due) {
    turn.next_due = std::max<Duration>(*last_look_->next_due - clocks_.wall(), Duration{0});
  }
  return turn;
}

void SqliteStore::report_orders(Turn& turn) const {
  turn.circuit_held = orders_.circuit_held;
  turn.why_held = orders_.why_held;
  turn.paused = orders_.paused;
  if (session_->circuits.shared()) turn.verdict = circuit().verdict_for(identity_.incarnation);
}

SharedCircuit SqliteStore::circuit() const {
  return orders_.circuit_open ? session_->circuits.read() : SharedCircuit{};
}

// Another relay probes, or the break is not over.
bool SqliteStore::must_wait(const LeaseRequest& request) const {
  return request.probe && circuit().wait_of(identity_.incarnation) > Duration{0};
}

// Whether there is something to lease. If not, `turn` is the answer: nothing was written.
bool SqliteStore::look(const LeaseRequest& request, Time now, Turn& turn) {
  Scene looked = scene(request.limit, now);
  looked.look_only = true;
  Transaction snapshot(session_->connection, Transaction::Kind::read);
  if (const auto obstacle = session_->selector.obstacle(request)) throw Unusable(*obstacle);
  const Selection selection = session_->selector.select(request, looked);
  snapshot.commit();
  if (!selection.rows.empty()) return true;
  last_look_.reset();
  if (!selection.more) last_look_ = {request, now, selection.next_due};
  turn = idle();
  turn.more = selection.more;
  turn.wants_solitude = selection.wants_solitude;
  if (selection.next_due) {
    turn.next_due = std::max<Duration>(*selection.next_due - looked.wall, Duration{0});
  }
  return false;
}

Scene SqliteStore::scene(std::size_t limit, Time now) {
  Scene result;
  result.incarnation = identity_.incarnation;
  result.limit = limit;
  result.now = now;
  result.wall = clocks_.wall();
  result.changed = std::exchange(changed_since_selection_, false);
  return result;
}

Turn SqliteStore::write(const TurnRequest& request, std::vector<Ended>& ended, Time called) {
  last_written_ = request.number;
  if (!identity_.registered && !(identity_.lock && identity_.lock->in_place())) {
    identity_.lock = std::make_unique<LockFile>(path_);
  }
  std::vector<Settlement> rest;
  if (!done_.empty()) rest = without_done(request.settlements);
  std::span<const Settlement> settlements =
      done_.empty() ? request.settlements : std::span<const Settlement>(rest);
  Turn parts;
  // More than may be written at once is written in parts; the last one is the turn.
  while (settlements.size() > pace_.limit()) {
    const auto part = settlements.first(pace_.limit());
    const Turn turn = write_carefully({&request, part, nullptr, called, false});
    for (const Settlement& settlement : part) done_.emplace(settlement.row, settlement.lease);
    parts.fenced += turn.fenced;
    parts.isolated += turn.isolated;
    if (parts.isolated_error.empty()) parts.isolated_error = turn.isolated_error;
    settlements = settlements.subspan(part.size());
    std::this_thread::sleep_for(kPartPause);
  }
  Turn turn = write_carefully({&request, settlements, &ended, called, true});
  turn.fenced += parts.fenced;
  turn.isolated += parts.isolated;
  if (turn.isolated_error.empty()) turn.isolated_error = parts.isolated_error;
  return turn;
}

std::vector<Settlement> SqliteStore::without_done(std::span<const Settlement> settlements) const {
  std::vector<Settlement> rest;
  rest.reserve(settlements.size());
  for (const Settlement& settlement : settlements) {
    if (!done_.contains({settlement.row, settlement.lease})) rest.push_back(settlement);
  }
  return rest;
}

// When a row refuses to be written, the transaction is run again with a savepoint for each row.
Turn SqliteStore::write_carefully(const Work& work) {
  if (careful_turns_ > 0) --careful_turns_;
  for (std::size_t tries = 0;; ++tries) {
    session_->settler.set_careful(careful_turns_ > 0);
    try {
      const Undo undo(session_->selector);
      return write_once(work);
    } catch (const NeedsCare&) {
      // At most once to become careful, and once for each row that undoes the transaction.
      if (tries > work.settlements.size() + 1) throw;
      careful_turns_ = kCarefulTurns;
    }
  }
}

Turn SqliteStore::write_once(const Work& work) {
  Turn turn;
  std::vector<Picked> picked;
  Transaction transaction(session_->connection, Transaction::Kind::write);
  const auto begun = HoldClock::now();
  session_->require_same_schema();
  if (!recognise(work, turn, picked)) {
    const LeaseId epoch = session_->registration.next_epoch(identity_.epoch);
    const WallTime now = clocks_.wall();
    const TimeFormat times = session_->sql.mapping().times;
    const Holder holder{identity_.incarnation, epoch, now, to_text(now), to_column(now, times)};
    settle(work, holder, turn);
    if (work.final) {
      tell(work);
      take_over(work, holder, turn);
      picked = lease(work, holder, turn);
      sign(work, epoch, turn);
    }
    turn.epoch = epoch;
  }
  const auto committing = HoldClock::now();
  transaction.commit();
  const auto ended = HoldClock::now();
  pace_.held(ended - begun, ended - committing);
  turn.rest = pace_.rest(work.called, ended - begun);
  committed(work, turn);
  if (!work.final) return turn;
  load(work, picked, turn);
  turn.leases_lost = std::exchange(leases_lost_, false);
  return turn;
}

// Finds out what the database knows of this relay. True if this very turn was applied before.
bool SqliteStore::recognise(const Work& work, Turn& turn, std::vector<Picked>& picked) {
  const auto mark = session_->registration.read(identity_);
  const bool gone_back =
      identity_.registered && session_->registration.last_epoch() < identity_.epoch;
  if (identity_.registered && (!mark || gone_back)) {
    // Removed by another relay, because our leases had ended; or a backup was restored.
    if (mark) {
      session_->registration.end_leases(identity_.incarnation);
      session_->registration.erase(identity_);
    }
    become_new();
    return false;
  }
  if (!mark || !work.final || mark->turn != work.request->number) return false;
  turn.epoch = mark->epoch;
  turn.more = true;
  picked = session_->reader.leased_under(identity_.incarnation, mark->epoch);
  orders_ = session_->orders();
  sign(work, mark->epoch, turn);
  return true;
}

void SqliteStore::settle(const Work& work, const Holder& holder, Turn& turn) {
  Settled settled;
  session_->settler.settle(work.settlements, holder, settled);
  session_->registration.forget(vanished_);
  session_->selector.settled(settled.freed);
  session_->selector.released(settled.released);
  turn.fenced = settled.fenced;
  turn.isolated = settled.isolated;
  turn.isolated_error = settled.isolated_error;
  if (settled.isolated > 0) careful_turns_ = kCarefulTurns;
}

void SqliteStore::tell(const Work& work) {
  CircuitBoard& circuits = session_->circuits;
  if (!work.request->circuit || !circuits.shared()) return;
  SharedCircuit circuit = circuits.read();
  if (circuit.take_in(*work.request->circuit, identity_.incarnation)) circuits.write(circuit);
}

// Of several relays that would probe, one may: the place is kept for it until it has told what came
// of it, or its time is over.
void SqliteStore::keep_probe(const LeaseRequest& request) {
  SharedCircuit kept = circuit();
  if (kept.keep_probe(identity_.incarnation, request.probe_term)) session_->circuits.write(kept);
}

void SqliteStore::take_over(const Work& work, const Holder& holder, Turn& turn) {
  for (Ended& ended : *work.ended) {
    TakeOver taken = session_->peers.take_over(ended, holder, kTakeOverMax, session_->settler);
    session_->selector.released(taken.rows);
    turn.taken_over += taken.leases;
    for (BuriedRow& row : taken.buried) turn.buried.push_back(std::move(row));
    if (!taken.complete) {
      ended.lock.reset();  // leaves the file: the next turn goes on
      examined_at_.reset();
    }
  }
}

std::vector<Picked> SqliteStore::lease(const Work& work, const Holder& holder, Turn& turn) {
  const LeaseRequest& request = work.request->lease;
  orders_ = session_->orders();
  if (orders_.circuit_held || orders_.paused || must_wait(request)) return {};
  if (request.limit == 0) {
    if (request.probe) keep_probe(request);
    return {};
  }
  // The next look says so. Thrown here, it would undo what was just settled.
  if (session_->selector.obstacle(request)) return {};
  const std::size_t room = pace_.limit() - std::min(pace_.limit(), work.settlements.size());
  const std::size_t limit = std::min(request.limit, std::max(room, pace_.limit() / 4));
  Scene chosen = scene(limit, work.called);
  chosen.wall = holder.now;
  chosen.incarnation = holder.incarnation;
  Selection selection = session_->selector.select(request, chosen);
  session_->registration.lease(identity_, holder.epoch, selection.rows);
  if (request.probe && !selection.rows.empty()) keep_probe(request);
  turn.more = selection.more;
  turn.wants_solitude = selection.wants_solitude;
  if (selection.next_due) {
    turn.next_due = std::max<Duration>(*selection.next_due - holder.now, Duration{0});
  }
  return std::move(selection.rows);
}

void SqliteStore::sign(const Work& work, LeaseId epoch, Turn& turn) {
  const Duration term = work.request->lease.term;
  const Registration::Mark mark{work.request->number, epoch};
  const auto until = term > Duration{0} ? std::optional(work.called + term) : std::nullopt;
  if (!session_->registration.sign(identity_, mark, until)) {
    session_->registration.write(identity_, mark, work.called + term);
  }
  turn.renewed = term > Duration{0};
}

// The transaction is on disk: now what it changed may be believed.
void SqliteStore::committed(const Work& work, Turn& turn) {
  turn.status = TurnStatus::committed;
  last_look_.reset();
  vanished_.clear();
  if (!work.final) return;
  identity_.epoch = turn.epoch;
  report_orders(turn);
  identity_.registered = true;
  done_.clear();
  for (Ended& ended : *work.ended) {
    if (ended.lock) ended.lock->remove_file();
  }
}

void SqliteStore::load(const Work& work, const std::vector<Picked>& picked, Turn& turn) {
  Loaded loaded = session_->reader.load(picked, turn.epoch, work.request->lease.payload_max);
  vanished_ = std::move(loaded.vanished);
  turn.leased = std::move(loaded.messages);
  session_->connection.checkpoint_if_over(settings_.wal_limit, clocks_.boot->now());
  // Had the file been replaced in between, this would not have been the application's outbox.
  require_same_file();
}

Turn SqliteStore::refuse(TurnStatus status, std::string error) {
  Turn turn;
  turn.status = status;
  turn.error = std::move(error);
  turn.leases_lost = std::exchange(leases_lost_, false);
  return turn;
}

Turn SqliteStore::busy(std::string error) {
  Turn turn;
  turn.status = TurnStatus::busy;
  turn.error = std::move(error);
  const auto least = std::chrono::microseconds(1000);
  turn.rest = least + std::chrono::microseconds(random_.below(2000));
  return turn;
}

// What was leased before is void: it stands in another file, or was given to another relay.
void SqliteStore::become_new() {
  leases_lost_ = true;
  identity_.incarnation = new_incarnation();
  identity_.registered = false;
  done_.clear();
  vanished_.clear();
}

void SqliteStore::close() {
  session_.reset();
  last_look_.reset();
}

void SqliteStore::retire() {
  if (!session_ || !identity_.registered) {
    if (identity_.lock && !identity_.registered) identity_.lock->remove();
    return;
  }
  const auto give_up = HoldClock::now() + kRetirePatience;
  while (true) {
    try {
      if (!session_->connection.same_file()) return;
      Transaction transaction(session_->connection, Transaction::Kind::write);
      session_->registration.end_leases(identity_.incarnation);
      session_->registration.erase(identity_);
      session_->circuits.leave(identity_.incarnation);
      transaction.commit();
      identity_.lock->remove();
      identity_.registered = false;
      identity_.incarnation = new_incarnation();
      last_look_.reset();
      session_->selector.start_over();
      return;
    } catch (const Busy&) {
      if (HoldClock::now() >= give_up) return;
      std::this_thread::sleep_for(kPartPause);
    } catch (const std::exception&) {
      return;  // the leases end by the lock file, which is let go with this store
    }
  }
}

}  // namespace outbox::sqlite
