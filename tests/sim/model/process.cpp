#include "tests/sim/model/process.h"

#include <algorithm>
#include <utility>

#include "tests/sim/model/seeds.h"

namespace outbox::sim {
namespace {

using std::chrono::microseconds;

constexpr Duration kSettleTimeout = std::chrono::seconds{7};

Duration clock_origin(const Scenario& scenario, ProcessId id) {
  Random random(mix(scenario.seed, "origin", id));
  return std::chrono::seconds{1 + random.below(1'000'000)};
}

std::int64_t clock_drift(const Scenario& scenario, ProcessId id) {
  Random random(mix(scenario.seed, "drift", id));
  const auto max = scenario.drift_ppm_max;
  return static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(2 * max + 1))) - max;
}

}  // namespace

Process::Process(Context& context, ProcessId id)
    : context_(context),
      id_(id),
      clock_(context.events, clock_origin(context.scenario, id), clock_drift(context.scenario, id)),
      receipts_(*this),
      store_(context, id, clock_),
      publisher_(std::make_unique<SimPublisher>(context, id, clock_, receipts_)),
      random_(mix(context.scenario.seed, "process", id)),
      retunes_(mix(context.scenario.seed, "retune", id)) {
  relay_ = std::make_unique<Relay>(context.scenario.relay, store_, *publisher_, receipts_, clock_,
                                   *this, mix(context.scenario.seed, "relay", id));
  context_.processes.emplace(id, this);
  context_.facts.on_started(id, context.events.now());
  wake_at(context_.events.now());
}

Process::~Process() {
  context_.processes.erase(id_);
  publisher_.reset();
  relay_.reset();
}

void Process::ring() {
  context_.facts.on_stimulus(id_, context_.events.now());
  rung_ = true;
  if (!in_step_) wake_at(context_.events.now() + microseconds{20});
}

void Process::hint() {
  hinted_ = true;
  ring();
}

void Process::wake_at(Time when) {
  when = std::max({when, free_at_, context_.events.now()});
  if (has_plan_ && planned_ <= when) return;
  has_plan_ = true;
  planned_ = when;
  const std::uint64_t plan = ++plan_;
  context_.events.at(when, [&context = context_, id = id_, plan] {
    Process* alive = context.find(id);
    if (alive != nullptr && alive->plan_ == plan) alive->run();
  });
}

void Process::run() {
  has_plan_ = false;
  if (frozen_ || ended_) return;
  step();
}

void Process::step() {
  rung_ = false;
  in_step_ = true;
  const Time begin = context_.events.now();
  clock_.begin_step();
  if (hinted_) relay_->hint();
  hinted_ = false;
  if (retunes_.chance(context_.scenario.retune_share)) retune();
  if (stop_at_ && begin >= *stop_at_ + context_.scenario.drain_timeout) relay_->abandon();
  const Time next = clock_.world(relay_->step());
  clock_.spend(microseconds{20 + random_.below(60)});
  free_at_ = clock_.world_now();
  clock_.begin_step();
  in_step_ = false;
  context_.facts.on_step(id_, begin, free_at_, next);
  if (publisher_->killed()) {
    crash();
    return;
  }
  wake_at(rung_ ? free_at_ : std::max(next, free_at_));
  if (stop_at_) mind_the_stop();
}

// Settings within what the scenario's own let the checks expect.
void Process::retune() {
  using std::chrono::seconds;
  const RelayOptions& most = context_.scenario.relay;
  RelayTuning tuning{most.batch_size, most.poll_interval, most.retry, most.breaker};
  tuning.batch_size = 1 + retunes_.below(most.batch_size);
  BreakerOptions& breaker = tuning.breaker;
  breaker.failure_ratio = retunes_.between(0.1, 1);
  breaker.minimum_throughput = static_cast<std::uint32_t>(1 + retunes_.below(30));
  breaker.sampling_duration = seconds{1 + retunes_.below(30)};
  breaker.break_duration /= static_cast<Duration::rep>(1 + retunes_.below(3));
  breaker.consecutive_failures = static_cast<std::uint32_t>(retunes_.below(6));
  breaker.probes = static_cast<std::uint32_t>(1 + retunes_.below(most.breaker.probes));
  relay_->retune(std::move(tuning));
}

// As relay/relay_loop.cpp has it.
void Process::mind_the_stop() {
  const Time abandon_at = *stop_at_ + context_.scenario.drain_timeout;
  const Time give_up_at = abandon_at + kSettleTimeout + context_.scenario.relay.publish_timeout;
  const Time now = free_at_;
  if (relay_->drained()) {
    context_.facts.on_drained(id_, context_.table.leases_of(id_), now);
    store_.retire();
    ended_ = Ending::clean;
  } else if (now >= give_up_at) {
    ended_ = Ending::gave_up;
  } else {
    wake_at(now < abandon_at ? abandon_at : give_up_at);
  }
}

void Process::stop() {
  if (stop_at_) return;
  context_.trace.event(context_.events.now(), "process", "stop", {{"process", id_}});
  stop_at_ = context_.events.now();
  relay_->stop();
  ring();
}

void Process::freeze() {
  if (frozen_) return;
  frozen_ = true;
  publisher_->freeze();
}

void Process::thaw() {
  if (!frozen_) return;
  frozen_ = false;
  free_at_ = std::max(free_at_, context_.events.now());
  publisher_->thaw();
  wake_at(context_.events.now());
}

void Process::crash() {
  publisher_->cut();
  store_.cut();
  ended_ = Ending::crashed;
}

void Process::on_circuit(const CircuitChange& change) {
  context_.trace.event(clock_.world_now(), "circuit", name_of(change.to), {{"process", id_}},
                       change.reason);
  context_.facts.on_circuit(id_, change, clock_.world_now());
}

void Process::on_short_circuit(const ShortCircuit& report) {
  context_.trace.event(clock_.world_now(), "circuit", "turned away",
                       {{"process", id_}, {"messages", report.total}});
  context_.facts.on_short_circuit(id_, report.total, clock_.world_now());
}

void Process::on_burial(const Burial& burial) {
  context_.facts.on_observed_burial(id_, burial.reason, clock_.world_now());
}

void Process::on_turn(const TurnReport& report) {
  context_.facts.on_observed_turn(id_, report, context_.table.leases_of(id_), clock_.world_now());
}

void Process::on_delivery(const Delivery& delivery) {
  context_.facts.on_observed_end(id_, delivery.outcome, delivery.sent, clock_.world_now());
  if (delivery.outcome != Outcome::confirmed) return;
  context_.facts.on_confirmed(id_, row_number(delivery.message->row),
                              std::string(delivery.destination), clock_.world_now());
}

}  // namespace outbox::sim
