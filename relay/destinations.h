// What is known about the destinations of one broker: which of them accept messages, and which are
// held because an operator has to mend something first (a revoked credential, a missing topic).
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "relay/clock.h"
#include "relay/observer.h"
#include "relay/random.h"

namespace outbox {

struct DestinationOptions {
  bool hold = true;  // off: a misconfigured answer concerns its row only
  Duration probe_interval = std::chrono::minutes{1};
  Duration held_delay_max = std::chrono::minutes{5};
  std::size_t remembered_max = 1024;  // the longest unused one is forgotten first
};

// May a row go to its destination now?
enum class Gate {
  open,
  probe,  // the destination is held: this one row may try it
  held,
};

// Confined to one thread.
class Destinations {
 public:
  explicit Destinations(DestinationOptions options) : options_(options) {}

  // Asks for one row. `probe` is answered once each probe_interval.
  Gate gate(const std::string& destination, Time now);

  // What a publish to it came to. A destination is held when most of its last 20 answers were
  // misconfigured or refused, and lifted by the first message that it accepts.
  void on_confirmed(const std::string& destination, Time now);
  void on_refusal(const std::string& destination, FailureKind kind, const std::string& reason,
                  Time now);

  bool is_held(const std::string& destination) const;
  // All destinations that were ever heard of are held: looking for more rows finds the same again.
  bool all_held() const { return !entries_.empty() && held_ == entries_.size(); }
  std::optional<Time> last_confirmed(const std::string& destination) const;

  // When a row that the gate turned away is due again: the first few with the next probe, so that
  // there is one to send, the others later, so that a long backlog is not sifted each minute.
  Duration delay_when_held(const std::string& destination, Time now, Random& random);

  // Changes since the last call, oldest first.
  std::vector<DestinationChange> take_changes();
  std::vector<DestinationChange> held() const;

 private:
  struct Entry {
    std::string name;
    std::uint32_t refusals = 0;  // a bit for each of the last answers, the newest lowest
    std::optional<Time> last_confirmed;
    bool held = false;
    FailureKind kind = FailureKind::none;
    std::string reason;
    Time next_probe{};
    std::size_t turned_away = 0;  // rows, since the last probe
  };
  using Entries = std::list<Entry>;  // the most recently used first

  Entry& entry(const std::string& destination);
  const Entry* find(const std::string& destination) const;
  void forget_one();

  DestinationOptions options_;
  Entries entries_;
  std::unordered_map<std::string, Entries::iterator> index_;
  std::size_t held_ = 0;
  std::vector<DestinationChange> changes_;
};

}  // namespace outbox
