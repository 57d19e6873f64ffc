#include "tests/sim/model/writer.h"

#include <algorithm>
#include <utility>

#include "tests/sim/model/seeds.h"

namespace outbox::sim {

Writer::Writer(Context& context, std::function<void()> committed)
    : context_(context),
      committed_(std::move(committed)),
      random_(mix(context.scenario.seed, "writer")) {}

void Writer::start() {
  context_.events.at(Time{} + context_.scenario.first_row, [this] { commit(); });
}

// Rows come evenly spread over the time of the faults, in bursts.
void Writer::plan() {
  const Scenario& scenario = context_.scenario;
  if (written_ >= scenario.rows) return;
  const Time end = Time{} + scenario.safety;
  const Duration left = std::max<Duration>(end - context_.events.now(), Duration{0});
  const auto transactions = static_cast<Duration::rep>(1 + (scenario.rows - written_) * 2 /
                                                               (scenario.transaction_rows + 1));
  const Duration mean = left / transactions;
  const double stretch = random_.chance(0.5) ? random_.between(0, 0.2) : random_.between(0.5, 2);
  const Duration wait{static_cast<Duration::rep>(static_cast<double>(mean.count()) * stretch)};
  context_.events.after(wait, [this] { commit(); });
}

void Writer::commit() {
  const Scenario& scenario = context_.scenario;
  std::size_t rows = 1 + random_.below(scenario.transaction_rows);
  rows = std::min(rows, scenario.rows - written_);
  for (std::size_t i = 0; i < rows; ++i) {
    ++written_;
    context_.table.insert(next_row());
  }
  context_.trace.event(context_.events.now(), "application", "commit",
                       {{"rows", rows}, {"last", written_}});
  committed_();
  plan();
}

RowKind Writer::next_kind() {
  const auto special = context_.scenario.special_rows.find(written_);
  if (special != context_.scenario.special_rows.end()) return special->second;
  const Faults& faults = context_.scenario.faults;
  const double poison = context_.scenario.poison_share;
  const double killer = context_.scenario.killer_share;
  const std::pair<Fault, RowKind> kinds[] = {
      {Fault::poison, RowKind::poison},   {Fault::oversized, RowKind::oversized},
      {Fault::defect, RowKind::defect},   {Fault::killer, RowKind::killer},
      {Fault::unfit, RowKind::unfit},     {Fault::future, RowKind::future},
      {Fault::trigger, RowKind::trigger},
  };
  for (const auto& [fault, kind] : kinds) {
    const double share = kind == RowKind::killer ? killer : kind == RowKind::poison ? poison : 0.02;
    if (random_.chance(share) && has(faults, fault)) return kind;
  }
  return RowKind::plain;
}

Row Writer::next_row() {
  const Scenario& scenario = context_.scenario;
  Row row;
  row.number = written_;
  row.kind = next_kind();
  row.id = "event-" + std::to_string(written_);
  row.event_type = random_.chance(0.5) ? "asset.created" : "asset.moved";
  const std::uint64_t key = random_.below(scenario.keys + 1);  // the first few are the busy ones
  if (scenario.keys > 0 && random_.chance(0.9)) {
    row.key = "key-" + std::to_string(random_.below(key + 1));
  }
  row.destination = destination_name(random_.below(scenario.destinations));
  if (random_.chance(0.3)) row.headers.push_back({"x-tenant", "t" + std::to_string(key)});
  row.payload.assign(10 + random_.below(random_.chance(0.1) ? 2000 : 200), 'x');
  row.payload += std::to_string(written_);
  row.payload_size = row.payload.size();
  row.occurred = context_.events.now();
  if (row.kind == RowKind::oversized) {
    row.payload_size = scenario.relay.payload_max + 1 + random_.below(1u << 20);
  }
  if (row.kind == RowKind::future) {
    const bool soon = random_.chance(0.5) && !scenario.special_rows.contains(written_);
    row.not_before = row.occurred + std::chrono::seconds{soon ? random_.below(120) : 100'000'000};
  }
  return row;
}

}  // namespace outbox::sim
