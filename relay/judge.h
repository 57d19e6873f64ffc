// What an outcome means for a row: pure decisions, one settlement each.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "relay/circuit_breaker.h"
#include "relay/destinations.h"
#include "relay/outbox_store.h"
#include "relay/publisher.h"
#include "relay/retry_policy.h"
#include "relay/window.h"

namespace outbox {

struct JudgeOptions {
  RetryOptions retry;
  bool hold_destinations = true;      // off: see DestinationOptions::hold
  bool charge_every_failure = false;  // every failure goes up the ladder, none is exempt
  Duration misconfigured_delay = std::chrono::seconds{30};  // doubling up to
  Duration misconfigured_delay_max = std::chrono::minutes{5};
  Duration misconfigured_life = std::chrono::hours{24};
  std::uint64_t payload_max = 4u << 20;
};

// Ask after the breaker and the destinations have heard of the outcome: the outage guard looks at
// both. Confined to one thread; the references outlive it.
class Judge {
 public:
  Judge(const JudgeOptions& options, Destinations& destinations, const CircuitBreaker& breaker,
        Random& random)
      : options_(options),
        retry_(options.retry),
        destinations_(destinations),
        breaker_(breaker),
        random_(random) {}

  // A publish that came to an end; not for a cancelled one, which says nothing about its row.
  Settlement judge(const Held& held, const Receipt& receipt, Time now);
  // An open circuit turned the row away.
  Settlement short_circuited(const Held& held);
  // Its destination is held.
  Settlement turned_away(const Held& held, Time now);
  // No route leads anywhere for it.
  Settlement unroutable(const Held& held, const std::string& why);
  // Given back as it was.
  static Settlement released(const Message& message);
  // A row that can't be sent, whatever the broker: what is wrong with it, as a dead letter.
  std::optional<Settlement> unsendable(const Message& message) const;

  // Another ladder for what is judged from now on.
  void retune(const RetryOptions& retry);

 private:
  Settlement failed(const Held& held, FailureKind kind, const Receipt& receipt);
  Settlement misconfigured(const Held& held, const Receipt& receipt);
  Settlement refused(const Held& held, const Receipt& receipt);
  bool counts_toward_death(const Held& held, FailureKind kind) const;
  Duration misconfigured_delay(std::uint32_t tries) const;

  JudgeOptions options_;
  RetryPolicy retry_;
  Destinations& destinations_;
  const CircuitBreaker& breaker_;
  Random& random_;
};

}  // namespace outbox
