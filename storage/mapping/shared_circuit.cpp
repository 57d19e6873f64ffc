#include "storage/mapping/shared_circuit.h"

#include <algorithm>

#include "relay/check.h"

namespace outbox {
namespace {

// No break is that long: the database's clock was set back.
constexpr Duration kAbsurd = std::chrono::hours{2};

Duration believable(Duration left) {
  return left > kAbsurd ? Duration{0} : std::max(left, Duration{0});
}

}  // namespace

Duration SharedCircuit::wait_of(std::int64_t self) const {
  if (!open) return Duration{0};
  const bool others = probe_by != 0 && probe_by != self;
  return std::max(believable(break_left), others ? believable(probe_left) : Duration{0});
}

SharedVerdict SharedCircuit::verdict_for(std::int64_t self) const {
  return {static_cast<std::uint64_t>(number), open, wait_of(self)};
}

bool SharedCircuit::take_in(const CircuitNews& news, std::int64_t self) {
  const bool opens = news.kind == CircuitNews::Kind::opened;
  // While a verdict stands only the relay that probes has something to add.
  if (opens && open && probe_by != self && wait_of(self) > Duration{0}) return false;
  // What a probe has found says something of the verdict that it was sent under.
  const bool probed = !opens || news.verdict != 0;
  if (probed && (!open || news.verdict != static_cast<std::uint64_t>(number))) return false;
  ++number;
  open = opens;
  break_left = opens ? news.open_for : Duration{0};
  reason = opens ? news.reason : "";
  probe_by = 0;
  probe_left = Duration{0};
  return true;
}

bool SharedCircuit::keep_probe(std::int64_t self, Duration term) {
  RELAY_CHECK(wait_of(self) <= Duration{0});
  if (!open) return false;
  probe_by = self;
  probe_left = term;
  return true;
}

}  // namespace outbox
