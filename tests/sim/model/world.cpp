#include "tests/sim/model/world.h"

#include <algorithm>
#include <set>

#include "tests/sim/model/seeds.h"

namespace outbox::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kIdleTime = seconds{20};
constexpr std::uint64_t kEventsMax = 40'000'000;

Duration around(Duration mean, Random& random) {
  return Duration{
      static_cast<Duration::rep>(static_cast<double>(mean.count()) * random.between(0.3, 1.7))};
}

}  // namespace

World::World(const Scenario& scenario)
    : scenario_(scenario),
      trace_(scenario.trace),
      lease_checks_(scenario_, court_),
      delivery_checks_(scenario_, court_),
      verdict_checks_(scenario_, court_),
      pace_checks_(scenario_, court_),
      table_(scenario_, court_),
      broker_(scenario_, events_, court_, trace_),
      context_{scenario_, events_, table_, broker_, court_, trace_, true, {}},
      writer_(context_,
              [this] {
                for (Slot& slot : slots_) {
                  const bool lost =
                      has(scenario_.faults, Fault::hint_lost) && operator_.chance(0.5);
                  if (slot.process && !lost) slot.process->hint();
                }
              }),
      chaos_(mix(scenario.seed, "chaos")),
      operator_(mix(scenario.seed, "operator")),
      pauses_(mix(scenario.seed, "pause")),
      slots_(scenario.relays) {
  for (Facts* check :
       std::initializer_list<Facts*>{&lease_checks_, &delivery_checks_, &verdict_checks_,
                                     &pace_checks_, &report_checks_, &tally_}) {
    court_.add(*check);
  }
}

World::~World() = default;

Report World::run() {
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    const Duration late = slot == 0 ? Duration{0} : milliseconds{chaos_.below(3000)};
    events_.after(late, [this, slot] { start_relay(slot); });
    plan_chaos(slot, Fault::crash, scenario_.crash_gap);
    plan_chaos(slot, Fault::freeze, scenario_.freeze_gap);
    plan_chaos(slot, Fault::drain, scenario_.drain_gap);
    plan_chaos(slot, Fault::connection_loss, scenario_.freeze_gap);
  }
  court_.mute(scenario_.muted);
  plan_operator();
  writer_.start();
  run_until(Time{} + scenario_.safety);
  end_faults();
  settle();
  idle();
  finish();
  report_.violation = court_.violation();
  report_.hash = trace_.hash();
  report_.events = trace_.events();
  report_.lasted = events_.now() - Time{};
  return report_;
}

void World::run_until(Time end) {
  events_.at(end, [] {});  // so that the time comes even if nothing happens
  while (!court_.violation() && !events_.empty() && events_.next() <= end) {
    events_.run_one();
    reap();
    if (trace_.events() > kEventsMax) court_.accuse("hot loop", "too many events", events_.now());
  }
}

void World::start_relay(std::size_t slot) {
  if (slots_[slot].process || slots_[slot].stays_down || over_) return;
  const ProcessId id = ++last_process_;
  trace_.event(events_.now(), "process", "start", {{"process", id}, {"slot", slot}});
  slots_[slot].process = std::make_unique<Process>(context_, id);
}

void World::end_relay(std::size_t slot, Ending how) {
  Process* process = slots_[slot].process.get();
  if (process == nullptr || process->ended()) return;
  if (how == Ending::clean) {
    process->stop();
  } else {
    process->crash();
  }
}

void World::end_relay_for_good(std::size_t slot, Ending how) {
  slots_[slot].stays_down = true;
  end_relay(slot, how);
}

void World::revive(std::size_t slot) {
  slots_[slot].stays_down = false;
  start_relay(slot);
}

// Destroys the processes that have ended, and has them started again.
void World::reap() {
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    std::unique_ptr<Process>& process = slots_[slot].process;
    if (!process || !process->ended()) continue;
    const Ending how = *process->ended();
    trace_.event(events_.now(), "process", "end",
                 {{"process", process->id()}, {"how", static_cast<std::uint64_t>(how)}});
    court_.on_ended(process->id(), how, events_.now());
    table_.process_died(process->id());
    process.reset();
    if (over_) {
      if (how == Ending::gave_up) {
        court_.accuse("P12 clean stop", "a relay did not drain in time", events_.now());
      }
      continue;
    }
    const std::uint64_t most = context_.faults_on ? 10'000 : 1'000;
    events_.after(milliseconds{50 + chaos_.below(most)}, [this, slot] { start_relay(slot); });
  }
}

void World::freeze(std::size_t slot, Duration length) {
  Process* process = slots_[slot].process.get();
  if (process == nullptr || process->ended() || process->frozen()) return;
  const ProcessId id = process->id();
  trace_.event(events_.now(), "process", "freeze",
               {{"process", id}, {"ms", static_cast<std::uint64_t>(length / milliseconds{1})}});
  process->freeze();
  court_.on_disturbed(id, events_.now() + length);
  events_.after(length, [this, id] {
    Process* alive = context_.find(id);
    if (alive == nullptr) return;
    trace_.event(events_.now(), "process", "thaw", {{"process", id}});
    alive->thaw();
  });
}

void World::plan_chaos(std::size_t slot, Fault fault, Duration gap) {
  if (!has(scenario_.faults, fault)) return;
  events_.after(around(gap, chaos_), [this, slot, fault, gap] {
    if (!context_.faults_on) return;
    strike(slot, fault);
    plan_chaos(slot, fault, gap);
  });
}

void World::strike(std::size_t slot, Fault fault) {
  Process* process = slots_[slot].process.get();
  if (process == nullptr || process->ended()) return;
  if (fault == Fault::crash) {
    end_relay(slot, Ending::crashed);
  } else if (fault == Fault::drain) {
    end_relay(slot, Ending::clean);
  } else if (fault == Fault::connection_loss) {
    process->publisher().lose_connection();
  } else {
    const Duration term = scenario_.relay.lease_term;
    freeze(slot, chaos_.chance(0.6) ? around(term / 4, chaos_) : around(term, chaos_));
  }
}

void World::plan_operator() {
  events_.after(around(seconds{20}, operator_), [this] {
    if (!context_.faults_on) return;
    operate();
    plan_operator();
  });
}

void World::operate() {
  if (has(scenario_.faults, Fault::redrive)) {
    std::vector<RowNumber> dead;
    for (const RowNumber number : table_.unfinished()) {
      const Row& row = table_.row(number);
      if (row.status == Status::dead && row.kind != RowKind::killer) dead.push_back(number);
    }
    if (!dead.empty()) {
      const RowNumber chosen = dead[operator_.below(dead.size())];
      trace_.event(events_.now(), "operator", "redrive", {{"row", chosen}});
      table_.redrive(chosen, operator_.chance(0.5));
    }
  }
  if (has(scenario_.faults, Fault::leases_wiped) && operator_.chance(0.2)) {
    trace_.event(events_.now(), "operator", "wipe");
    table_.wipe_leases(events_.now());
  }
  if (has(scenario_.faults, Fault::isolate)) {
    table_.hold_circuit(operator_.chance(0.4));
    table_.pause(pauses_.chance(0.3));
  }
}

void World::end_faults() {
  if (court_.violation()) return;
  trace_.event(events_.now(), "world", "faults end");
  context_.faults_on = false;
  broker_.end_faults();
  table_.hold_circuit(false);
  table_.pause(false);
  court_.on_faults_end(events_.now());
  report_.faults_ended = events_.now();
  const std::size_t first = chaos_.below(slots_.size());
  std::size_t alive = 0;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const std::size_t slot = (first + i) % slots_.size();
    Process* process = slots_[slot].process.get();
    if (process != nullptr) process->thaw();
    if (slots_[slot].stays_down) continue;
    if (alive++ < scenario_.survivors) {
      start_relay(slot);
    } else {
      slots_[slot].stays_down = true;
      end_relay(slot, chaos_.chance(0.5) ? Ending::crashed : Ending::clean);
    }
  }
}

bool World::held_for_good(const Row& row) const {
  if (row.kind != RowKind::poison || row.status != Status::failed) return false;
  return row.history.last_failure == FailureKind::held ||
         row.history.last_failure == FailureKind::misconfigured;
}

const Row* World::unsettled_row(Duration ahead, bool may_be_held) const {
  std::set<std::string> blocked;
  const bool keyed = scenario_.relay.ordering == Ordering::key;
  for (const RowNumber number : table_.unfinished()) {
    const Row& row = table_.row(number);
    if (keyed && row.key && blocked.contains(*row.key)) continue;
    const bool dead = row.status == Status::dead;
    const bool waits =
        dead || row.not_before > events_.now() + ahead || (may_be_held && held_for_good(row));
    if (!waits) return &row;
    const bool blocks = !dead || scenario_.relay.dead_blocks_key;
    if (row.key && blocks) blocked.insert(*row.key);
  }
  return nullptr;
}

bool World::at_rest() const {
  if (writer_.written() < scenario_.rows) return false;
  for (const Slot& slot : slots_) {
    if (slot.process && slot.process->busy()) return false;
  }
  return unsettled_row(Duration{0}, true) == nullptr;
}

std::string World::unrest() const {
  const Row* row = unsettled_row(Duration{0}, true);
  if (row == nullptr) return "nothing";
  return "row " + std::to_string(row->number) + " is " + name_of(row->status) +
         (row->holder == 0 ? ", held by nobody" : ", held by " + std::to_string(row->holder)) +
         ", last failure " + outbox::name_of(row->history.last_failure) + ", due in " +
         std::to_string((row->due - events_.now()) / seconds{1}) + " s, and " +
         std::to_string(table_.unfinished().size()) + " rows are unfinished";
}

void World::settle() {
  const Time begin = events_.now();
  const Time end = begin + scenario_.settle_bound.value_or(settle_bound(scenario_));
  while (!court_.violation() && !at_rest()) {
    if (events_.now() >= end) {
      court_.accuse("P1 no loss",
                    "not at rest " + std::to_string((end - begin) / seconds{1}) +
                        " s after the last fault: " + unrest(),
                    events_.now());
      return;
    }
    run_until(std::min(end, events_.now() + milliseconds{250}));
  }
  report_.to_rest = events_.now() - begin;
}

// With nothing to do, a relay looks each poll interval, and hardly ever else.
void World::idle() {
  if (court_.violation()) return;
  run_until(events_.now() + seconds{2});
  const bool nothing_to_do = unsettled_row(std::chrono::hours{1}, false) == nullptr;
  if (!nothing_to_do) return;
  const std::uint64_t before = tally_.steps;
  run_until(events_.now() + kIdleTime);
  const auto polls = static_cast<std::uint64_t>(kIdleTime / scenario_.relay.poll_interval) + 10;
  if (tally_.steps - before <= 3 * polls * slots_.size()) return;
  court_.accuse("hot loop",
                std::to_string(tally_.steps - before) + " steps in 20 s with nothing to do",
                events_.now());
}

void World::finish() {
  if (court_.violation()) return;
  over_ = true;
  for (Slot& slot : slots_) {
    if (slot.process) slot.process->stop();
  }
  run_until(events_.now() + scenario_.drain_timeout + scenario_.relay.publish_timeout +
            seconds{10});
  for (const Slot& slot : slots_) {
    if (slot.process && !court_.violation()) {
      court_.accuse("P12 clean stop", "a relay did not end", events_.now());
    }
  }
}

Report run(const Scenario& scenario) { return World(scenario).run(); }

std::string describe(const Scenario& scenario, const Report& report) {
  if (!report.violation) return "seed " + std::to_string(scenario.seed) + ": no violation";
  return "seed " + std::to_string(scenario.seed) + ": " + report.violation->invariant + ": " +
         report.violation->text + "; replay: outbox-sim --profile " + scenario.profile +
         (scenario.bug == Bug::none ? "" : std::string(" --bug ") + name_of(scenario.bug)) +
         " --seed " + std::to_string(scenario.seed) + " --trace";
}

}  // namespace outbox::sim
