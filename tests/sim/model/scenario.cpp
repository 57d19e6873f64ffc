#include "tests/sim/model/scenario.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <stdexcept>

#include "tests/sim/model/seeds.h"

namespace outbox::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr Duration kProbeInterval = minutes{1};  // of a held destination

template <class Value>
Value one_of(Random& random, std::initializer_list<Value> values) {
  return *std::next(values.begin(), static_cast<std::ptrdiff_t>(random.below(values.size())));
}

void draw_options(RelayOptions& options, Random& random) {
  options.batch_size = one_of<std::size_t>(random, {1, 2, 7, 20, 50, 100});
  options.in_flight_max = one_of<std::size_t>(random, {1, 3, 10, 40, 100, 256});
  options.in_flight_bytes_max = one_of<std::uint64_t>(random, {3'000, 20'000, 16u << 20});
  options.payload_max = one_of<std::uint64_t>(random, {4'096, 65'536, 4u << 20});
  options.publish_timeout = one_of<Duration>(random, {milliseconds{500}, seconds{2}, seconds{5}});
  options.lease_term = options.publish_timeout * static_cast<int>(3 + random.below(6));
  options.poll_interval = one_of<Duration>(random, {milliseconds{200}, seconds{1}, seconds{2}});
  options.ordering = random.chance(0.5) ? Ordering::key : Ordering::none;
  options.dead_blocks_key = random.chance(0.6);
  options.drain_on_stop = random.chance(0.7);
  options.hold_destinations = random.chance(0.8);
  options.ramp_after_open = random.chance(0.7);
  options.retry_share = one_of(random, {0.2, 0.5, 1.0});
  options.settle_wait =
      one_of<Duration>(random, {milliseconds{0}, milliseconds{5}, milliseconds{50}});
  options.misconfigured_delay = one_of<Duration>(random, {seconds{2}, seconds{30}});
  options.misconfigured_delay_max = one_of<Duration>(random, {seconds{40}, minutes{5}});

  RetryOptions& retry = options.retry;
  retry.max_attempts = one_of<std::uint32_t>(random, {2, 4, 6, 12});
  retry.base_delay = one_of<Duration>(random, {milliseconds{100}, seconds{1}, seconds{5}});
  retry.factor = one_of(random, {1.0, 1.5, 2.0, 3.0});
  retry.max_delay = one_of<Duration>(random, {seconds{5}, seconds{30}, minutes{2}});
  retry.jitter = one_of(random, {Jitter::full, Jitter::equal, Jitter::decorrelated,
                                 Jitter::proportional, Jitter::none});
  retry.redelivery_intervals.clear();
  if (random.chance(0.5)) retry.redelivery_intervals = {seconds{10}, seconds{60}};
  retry.outage_guard = random.chance(0.7);

  BreakerOptions& breaker = options.breaker;
  breaker.failure_ratio = one_of(random, {0.2, 0.5, 1.0});
  breaker.minimum_throughput = one_of<std::uint32_t>(random, {2, 10, 30});
  breaker.sampling_duration = one_of<Duration>(random, {seconds{5}, seconds{30}});
  breaker.break_duration = one_of<Duration>(random, {seconds{1}, seconds{5}, seconds{15}});
  breaker.break_growth = one_of(random, {1.0, 2.0});
  breaker.break_max = seconds{40};
  breaker.consecutive_failures = one_of<std::uint32_t>(random, {0, 3, 5});
  breaker.probes = one_of<std::uint32_t>(random, {1, 1, 3});
  breaker.probe_timeout = 2 * options.publish_timeout;
  breaker.while_open = random.chance(0.85) ? WhileOpen::suspend : WhileOpen::charge;
}

// `profile: adr-087`.
void take_record_options(RelayOptions& options) {
  options.batch_size = 50;
  options.poll_interval = seconds{2};
  options.lease_term = seconds{300};
  options.hold_destinations = false;
  options.charge_every_failure = true;
  options.ramp_after_open = false;
  options.retry_share = 1;
  options.retry = RetryOptions{.max_attempts = 5,
                               .base_delay = seconds{10},
                               .factor = 2,
                               .max_delay = seconds{300},
                               .jitter = Jitter::proportional,
                               .redelivery_intervals = {},
                               .outage_guard = false};
  options.breaker.consecutive_failures = 0;
  options.breaker.while_open = WhileOpen::charge;
}

void draw_world(Scenario& scenario, Random& random) {
  scenario.relays = 1 + random.below(3);
  scenario.survivors = 1 + random.below(scenario.relays);
  scenario.rows = 5 + random.below(random.chance(0.2) ? 300 : 80);
  scenario.keys = one_of<std::size_t>(random, {0, 1, 3, 10, 40});
  scenario.destinations = one_of<std::size_t>(random, {1, 1, 2, 5});
  scenario.transaction_rows = one_of<std::size_t>(random, {1, 3, 20});
  scenario.safety = seconds{20 + random.below(120)};
  scenario.connections = one_of<std::size_t>(random, {1, 2, 4, 16, 256});
  scenario.queue_max = one_of<std::size_t>(random, {1, 8, 256});
  scenario.broker_latency =
      one_of<Duration>(random, {milliseconds{1}, milliseconds{10}, milliseconds{80}});
  scenario.attempt_fault_share = one_of(random, {0.01, 0.05, 0.15});
  scenario.turn_fault_share = one_of(random, {0.01, 0.03, 0.1});
  scenario.crash_gap = seconds{5 + random.below(60)};
  scenario.freeze_gap = seconds{10 + random.below(60)};
  scenario.drain_gap = seconds{10 + random.below(60)};
  scenario.drain_timeout = seconds{1 + random.below(25)};
  scenario.repeat_tells_renewed = random.chance(0.5);
  scenario.extends_prefix = random.chance(0.5);
  scenario.lost_turn_leases = random.chance(0.5);
}

bool lasts(Fault fault) {
  switch (fault) {
    case Fault::slow:
    case Fault::throttle:
    case Fault::misconfigured:
    case Fault::dead_destination:
    case Fault::brownout:
    case Fault::refused_connections:
    case Fault::black_hole:
    case Fault::store_unusable:
      return true;
    case Fault::crash:
    case Fault::freeze:
    case Fault::drain:
    case Fault::hint_lost:
    case Fault::lock_unknown:
    case Fault::store_busy:
    case Fault::store_failed:
    case Fault::store_answer_lost:
    case Fault::store_partial:
    case Fault::store_slow:
    case Fault::trigger:
    case Fault::transport:
    case Fault::accepted_unknown:
    case Fault::answer_lost:
    case Fault::connection_loss:
    case Fault::conflict:
    case Fault::short_queue:
    case Fault::poison:
    case Fault::oversized:
    case Fault::defect:
    case Fault::killer:
    case Fault::future:
    case Fault::redrive:
    case Fault::isolate:
    case Fault::unfit:
    case Fault::leases_wiped:
    case Fault::count_:
      return false;
  }
  return false;
}

void draw_episodes(Scenario& scenario, Random& random) {
  std::vector<Fault> kinds;
  for (std::size_t i = 0; i < static_cast<std::size_t>(Fault::count_); ++i) {
    const auto fault = static_cast<Fault>(i);
    if (lasts(fault) && has(scenario.faults, fault)) kinds.push_back(fault);
  }
  if (kinds.empty()) return;
  const std::size_t count = random.below(5);
  const auto safety = static_cast<std::uint64_t>(scenario.safety / milliseconds{1});
  for (std::size_t i = 0; i < count; ++i) {
    Episode episode;
    episode.kind = kinds[random.below(kinds.size())];
    episode.start = Time{} + milliseconds{random.below(safety)};
    episode.length = milliseconds{200 + random.below(random.chance(0.3) ? 90'000 : 15'000)};
    episode.share = random.chance(0.6) ? 1 : random.between(0.2, 1);
    episode.wait = milliseconds{random.below(random.chance(0.3) ? 30'000 : 3'000)};
    const bool one = episode.kind == Fault::dead_destination || random.chance(0.3);
    if (one && episode.kind != Fault::store_unusable) {
      episode.destination = random.below(scenario.destinations);
    }
    scenario.episodes.push_back(episode);
  }
}

void draw_faults(Scenario& scenario, Random& random) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(Fault::count_); ++i) {
    if (random.chance(0.66)) scenario.faults.set(i);
  }
}

}  // namespace

std::vector<std::string> profiles() {
  return {"calm", "single", "swarm", "defaults", "record", "reload"};
}

RelayOptions record_options() {
  RelayOptions options;
  take_record_options(options);
  return options;
}

Scenario draw(std::uint64_t seed, const std::string& profile) {
  const auto known = profiles();
  if (std::find(known.begin(), known.end(), profile) == known.end()) {
    throw std::invalid_argument("unknown profile: " + profile);
  }
  Scenario scenario;
  scenario.seed = seed;
  scenario.profile = profile;
  Random random(mix(seed, "scenario"));
  draw_world(scenario, random);
  if (profile != "defaults") draw_options(scenario.relay, random);
  if (profile == "record") take_record_options(scenario.relay);
  if (profile == "single") {
    scenario.faults.set(random.below(static_cast<std::size_t>(Fault::count_)));
  } else if (profile != "calm") {
    draw_faults(scenario, random);
  }
  draw_episodes(scenario, random);
  scenario.shared_verdicts = scenario.relay.breaker.while_open == WhileOpen::suspend &&
                             (mix(seed, "shared verdicts") & 3) != 0;
  if (profile == "reload") scenario.retune_share = one_of(random, {0.002, 0.02, 0.3});
  return scenario;
}

Duration settle_bound(const Scenario& scenario) {
  const RelayOptions& options = scenario.relay;
  const bool charging = options.breaker.while_open == WhileOpen::charge;
  Duration ladder = options.retry.max_delay * 6 / 5;
  for (const Duration interval : options.retry.redelivery_intervals) {
    ladder = std::max(ladder, interval * 11 / 10);
  }
  const Duration broken =
      std::max(options.breaker.break_max, options.breaker.break_duration) * 6 / 5 +
      2 * options.breaker.probe_timeout;
  Duration told{0};
  for (const Episode& episode : scenario.episodes) told = std::max(told, episode.wait);
  const Duration held = 4 * (options.misconfigured_delay_max * 6 / 5 + kProbeInterval);
  const auto rows = static_cast<Duration::rep>(scenario.rows);
  const Duration paced = rows * (options.poll_interval + 3 * scenario.broker_latency);
  Duration killed{0};
  if (has(scenario.faults, Fault::killer)) {
    const Duration orphaned =
        has(scenario.faults, Fault::lock_unknown) ? options.lease_term * 11 / 10 : Duration{0};
    killed = (2 + rows / 20) * 8 * (seconds{2} + orphaned);
  }
  return seconds{30} + (charging ? 3 : 1) * ladder + broken + told + held + paced + killed +
         3 * options.lease_term;
}

}  // namespace outbox::sim
