// The relay's core: a state machine without thread, socket or clock of its own.
//
// Each step drains what the publisher reported, gives back what must not be sent, takes at most one
// turn at the store, submits what is ready, and says when it wants to be called again. The same
// object runs in production and under the simulator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "relay/circuit_breaker.h"
#include "relay/clock.h"
#include "relay/destinations.h"
#include "relay/judge.h"
#include "relay/observer.h"
#include "relay/outbox_store.h"
#include "relay/publisher.h"
#include "relay/ramp.h"
#include "relay/random.h"
#include "relay/receipt_queue.h"
#include "relay/retry_policy.h"
#include "relay/router.h"
#include "relay/tuning.h"
#include "relay/window.h"

namespace outbox {

struct RelayOptions {
  std::size_t batch_size = 100;
  std::size_t in_flight_max = 256;  // leased rows: ready, travelling, or not yet settled
  std::uint64_t in_flight_bytes_max = 16u << 20;
  std::uint64_t payload_max = 4u << 20;
  Duration lease_term = std::chrono::seconds{30};
  Duration poll_interval = std::chrono::seconds{1};
  Duration publish_timeout = std::chrono::seconds{5};
  Ordering ordering = Ordering::none;
  bool dead_blocks_key = true;        // onDeadKey: block
  bool drain_on_stop = true;          // keep leasing after stop() until no row is due (P12)
  bool hold_destinations = true;      // off in profile adr-087
  bool charge_every_failure = false;  // adr-087: no outcome is exempt but cancellation
  bool ramp_after_open = true;
  double retry_share = 0.2;  // of the window, while fresh rows wait; 1: no limit
  Duration settle_wait = std::chrono::milliseconds{5};  // verdicts wait this long for company
  Duration misconfigured_delay = std::chrono::seconds{30};
  Duration misconfigured_delay_max = std::chrono::minutes{5};
  Duration misconfigured_life = std::chrono::hours{24};
  RetryOptions retry;
  BreakerOptions breaker;
  std::vector<Route> routes;
};

// What an operator sees of a running relay.
struct RelayStatus {
  CircuitState circuit = CircuitState::closed;
  Duration next_probe{0};  // until the next probe, when open
  std::size_t held = 0;    // leases
  std::size_t travelling = 0;
  std::size_t in_flight_limit = 0;
  bool store_usable = false;  // the last turn was committed, or merely busy
  std::string store_error;    // why not
  bool stopping = false;
  bool paused = false;  // by an operator: nothing is leased
  std::vector<DestinationChange> held_destinations;
};

// Confined to one thread, but for the queue that feeds it.
class Relay {
 public:
  // All references outlive the relay, and the publisher is destroyed before it.
  Relay(const RelayOptions& options, OutboxStore& store, Publisher& publisher,
        ReceiptQueue& receipts, const Clock& clock, RelayObserver& observer, std::uint64_t seed);
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  // Does what can be done now. Returns when it must be called again at the latest; call it earlier
  // when a receipt arrived or hint() was called.
  Time step();

  // The outbox may have new rows: look now, and again shortly, since a hint may come early.
  void hint();

  // The next step begins by taking these over. What travels goes on, each permit stays good, the
  // circuit stays as it is, and rows that wait keep the due time that they were given.
  void retune(RelayTuning tuning);

  // Send what is held, settle, release. With drain_on_stop, lease until no row is due before that,
  // unless nothing can be leased: the outbox is paused, the circuit isolated, the store unusable.
  void stop();
  // Give back everything that does not travel and lease nothing more: the drain's time is over.
  void abandon();
  // stop() was called, nothing is held, everything is settled, and no more will be leased.
  bool drained() const;

  RelayStatus status() const;

 private:
  void take_over_tuning(Time now);

  // Receipts.
  void drain_receipts(Time now);
  void take_receipt(const Receipt& receipt, Time now);
  void tell_breaker(const Held& held, const Receipt& receipt, Time now);
  bool is_known_incident(std::uint64_t incident);
  void tell_destination(const Held& held, const Receipt& receipt, Time now);
  void tell_observer(const Held& held, const Receipt& receipt, const Settlement& settlement,
                     Time now);

  // Deciding about rows that are not sent.
  void shed(Time now);
  void end_era();
  void short_circuit_waiting();
  void release_waiting();
  void conclude(Held& held, Settlement settlement);
  void conclude_followers(std::vector<std::unique_ptr<Held>> followers);
  bool next_may_go(const Settlement& settlement) const;
  void add_verdict(Settlement settlement, const Message& message);

  // Turns (relay_turns.cpp).
  bool turn_is_due(Time now);
  bool wants_to_look(Time now);
  bool must_renew(Time now) const;
  std::size_t window_limit(Time now);
  std::size_t lease_limit(Time now);
  bool may_probe(Time now);
  bool is_paced(Time now);
  std::size_t retry_limit(Time now, std::size_t limit);
  void form_turn();
  void ask_for_rows(Time now);
  void take_turn(Time now);
  void turn_committed(const Turn& turn, Time before, Time after);
  void turn_failed(const Turn& turn, Time after);
  void obey_operator(const Turn& turn, Time now);
  void heed_verdict(const Turn& turn, Time before, Time now);
  void suspect(Time now);
  void date_recovery(const Turn& turn);
  void lease_row(Message message, Time before);
  bool settles_unwritten(const Message& message);
  void schedule_look(const Turn& turn, Time now);
  void report_turn(const Turn& turn, Duration took);
  void report_burials(const Turn& turn);

  // Submitting.
  void submit(Time now);
  void gather(Time now);
  bool prepare(Held& held, Time now);
  void take_back(std::size_t taken, Time now);

  void notice_changes(Time now);
  void notice_circuit(const CircuitChange& change);
  void spread(const CircuitChange& change);
  bool probe_is_ours(Time now) const;
  Duration probe_courtesy();
  Time next_wake(Time now);
  std::size_t holding() const;

  // Changed by take_over_tuning() only.
  RelayOptions options_;
  std::optional<RelayTuning> new_tuning_;

  // Constant after construction.
  const Router router_;
  OutboxStore& store_;
  Publisher& publisher_;
  ReceiptQueue& receipts_;
  const Clock& clock_;
  RelayObserver& observer_;

  // What decides.
  Random random_;
  CircuitBreaker breaker_;
  Destinations destinations_;
  Ramp ramp_;
  Judge judge_;
  std::size_t told_limit_ = 0;

  // What is held, and what is known about it but not yet written.
  struct Grave {  // a dead row, told to the observer once it is written
    DeadReason reason = DeadReason::permanent;
    BuriedRow row;
  };
  Window window_;
  std::vector<Settlement> verdicts_;
  std::vector<Grave> graves_;
  // Keys that an unwritten verdict keeps waiting: the store, which does not know of it yet, may
  // lease the rows behind.
  std::set<std::string> waiting_keys_;
  Time oldest_verdict_{};

  // The turn under way. Its settlements are repeated unchanged until its outcome is known.
  struct Pending {
    std::vector<Settlement> settlements;
    std::vector<Grave> graves;
    TurnRequest request;
    Time news_open_until{};
    bool outcome_unknown = false;  // it may have been applied, and may have leased rows
  };
  std::optional<Pending> pending_;
  std::uint64_t turn_number_ = 0;
  Time turn_not_before_{};
  Duration failure_delay_{0};
  TurnStatus last_turn_ = TurnStatus::unusable;
  std::string store_error_ = "no turn yet";

  // Leases. Without trust nothing is sent.
  std::optional<Time> trust_until_;
  Time renewed_at_{};
  std::uint64_t era_ = 1;  // rises when leases may have ended: rows of an earlier era are not sent
  LeaseId last_epoch_ = 0;
  // Rows that were settled up to then need not wait: the broker has come back since.
  static constexpr LeaseId kAllSettled = std::numeric_limits<std::int64_t>::max();
  LeaseId recovered_ = 0;
  bool wants_solitude_ = false;

  // What all relays of this outbox say of the circuit, as of the last turn; none if they don't.
  std::optional<SharedVerdict> verdict_;
  std::optional<CircuitNews> news_;  // for the others, with the next turn
  Time news_open_until_{};           // opened: the end of that break
  std::uint64_t our_verdict_ = 0;    // the number of the last one that we have told
  Time probe_ours_until_{};          // the store keeps the probe's place for us

  // When to look for rows.
  bool look_now_ = true;
  Time probe_not_before_{};
  bool break_noticed_ = false;  // that the break is over, once each
  Time next_look_{};
  Time hinted_until_{};
  Duration look_again_after_{0};

  // Submitting.
  std::uint64_t next_ticket_ = 1;
  std::vector<Publication> publications_;
  std::vector<Receipt> drained_receipts_;
  Time throttled_until_{};
  std::deque<std::uint64_t> incidents_;  // lost connections that the breaker has heard of
  Time submit_not_before_{};             // the publisher was full

  bool paused_ = false;  // by an operator, as of the last turn
  bool stopping_ = false;
  bool nothing_due_ = false;  // while stopping: the last look found no row
  // While stopping: the store is unusable, and leased nothing that we do not know of. With nothing
  // held there is nothing to wait for.
  bool store_gave_up_ = false;
  bool abandoned_ = false;
};

}  // namespace outbox
