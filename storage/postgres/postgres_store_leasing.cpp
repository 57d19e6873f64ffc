// What a turn leases.
#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "storage/postgres/postgres_store.h"

namespace outbox::postgres {
namespace {

constexpr std::chrono::hours kFarAhead{24 * 365};  // a due time may be infinity

}  // namespace

bool PostgresStore::may_select(const Work& work) const {
  const LeaseRequest& request = work.request->lease;
  if (request.limit == 0 || work.scenery.circuit_held || work.scenery.paused) return false;
  return !request.probe || work.circuit.wait_of(identity_.incarnation) <= Duration{0};
}

void PostgresStore::begin_selection(Work& work) {
  session_->selector.begin(work.request->lease,
                           {identity_.incarnation, work.called, work.scenery.now});
  work.selecting = true;
}

Selection PostgresStore::select(Work& work) {
  if (!may_select(work)) return {};
  if (!work.selecting) begin_selection(work);
  Selection selection = session_->selector.select();
  work.turn.more = selection.more;
  work.turn.wants_solitude = selection.wants_solitude;
  if (selection.next_due) {
    const auto ahead = std::clamp<std::chrono::microseconds>(
        *selection.next_due - work.scenery.now, std::chrono::microseconds{0}, kFarAhead);
    work.turn.next_due = ahead;
  }
  return selection;
}

// Whether all that may be leased next is told of, or due at a known time.
bool PostgresStore::is_idle(const Work& work, const Selection& selection) {
  const LeaseRequest& asked = work.request->lease;
  const bool looked = asked.limit > 0 && asked.retry_limit > 0 && !work.scenery.circuit_held &&
                      !work.scenery.paused && !work.circuit.open;
  const bool nothing = !selection.more && !selection.waiting && !selection.wants_solitude;
  return looked && nothing && asked.holding == 0 && remainder_.empty() &&
         session_->connection.listens() && session_->insert_trigger.is_there(work.called);
}

// Of several relays that would probe, one may: the place is kept for it until it has told what came
// of it, or its time is over.
bool PostgresStore::may_lease(Work& work) {
  const LeaseRequest& request = work.request->lease;
  if (!request.probe || !work.circuit.open) return true;
  CircuitBoard& circuits = session_->circuits;
  work.circuit = circuits.lock(work.scenery.now);
  if (work.circuit.wait_of(identity_.incarnation) > Duration{0}) return false;
  if (work.circuit.keep_probe(identity_.incarnation, request.probe_term)) {
    circuits.write(work.circuit, work.scenery.now);
  }
  return true;
}

void PostgresStore::lease(Work& work, const Selection& selection) {
  if (selection.rows.empty()) {
    sign(work, work.turn.epoch);
    return;
  }
  const LeaseRequest& request = work.request->lease;
  const bool loaded = std::all_of(selection.rows.begin(), selection.rows.end(),
                                  [](const Picked& row) { return row.loaded.has_value(); });
  if (!loaded) session_->selector.unload();
  Ahead leasing = session_->leases.lease(selection.rows, loaded, identity_.incarnation);
  // Read after the leases were written, so that whatever was decided before them is seen.
  Ahead finding = loaded ? session_->reader.find_notes(selection.rows)
                         : session_->reader.find(selection.rows, request.payload_max);
  std::optional<Ahead> signing;
  if (ends_with_leases(work, selection)) {
    signing = sign(work, std::nullopt);
    session_->connection.send_commit();
  }
  Leased leased = Leases::leased(selection.rows, leasing.rows());
  if (leased.rows.size() < selection.rows.size()) pass_over(work, selection, leased.rows);
  work.turn.leased = loaded ? loaded_messages(work, finding.rows(), leased)
                            : found_messages(work, finding.rows(), leased);
  session_->selector.unload();
  if (signing) {
    work.turn.epoch = Registration::signed_epoch(std::move(*signing));
    work.turn.more = work.turn.more || !leased.left.empty();
    work.gone = {std::move(leased.left), work.turn.epoch};
    return;
  }
  if (leased.epoch > 0) work.turn.epoch = leased.epoch;
  session_->leases.end(leased.left, identity_.incarnation, work.turn.epoch);
  sign(work, work.turn.epoch);
}

std::vector<Message> PostgresStore::found_messages(const Work& work, Rows found, Leased& leased) {
  auto messages = session_->reader.messages(std::move(found), leased.rows, leased.epoch,
                                            work.request->lease.payload_max, work.scenery.now);
  const auto gone = Leases::gone(messages, leased.rows);
  leased.left.insert(leased.left.end(), gone.begin(), gone.end());
  return messages;
}

// Rows that something was noted beside since they were loaded are read anew another time.
std::vector<Message> PostgresStore::loaded_messages(const Work& work, Rows notes, Leased& leased) {
  Rows& rows = session_->selector.loaded();
  const int first = Candidates::kMessageColumns;
  const auto noted = RowReader::noted(std::move(notes), rows, first, leased.rows);
  for (const Picked& row : leased.rows) {
    if (!noted.contains(row.key)) continue;
    leased.left.push_back(row.key);
    session_->selector.released({RowHandle{row.key, row.place.number, 0}});
  }
  std::erase_if(leased.rows, [&](const Picked& row) { return noted.contains(row.key); });
  return session_->reader.loaded_messages(rows, first, leased.rows, leased.epoch,
                                          work.request->lease.payload_max, work.scenery.now);
}

// Nothing that the transaction reads or writes after them may depend on what they come to: rows
// behind one of their key that could not be leased must not outlive it.
bool PostgresStore::ends_with_leases(const Work& work, const Selection& selection) const {
  return session_->connection.prepares() && work.request->lease.ordering == Ordering::none &&
         std::none_of(selection.rows.begin(), selection.rows.end(),
                      [](const Picked& row) { return row.noted; });
}

// Another relay was quicker, or somebody else has the row locked: it is left alone for a while.
void PostgresStore::pass_over(Work& work, const Selection& selection,
                              const std::vector<Picked>& leased) {
  std::set<std::string> ours;
  for (const Picked& row : leased) ours.insert(row.key);
  for (const Picked& row : selection.rows) {
    if (!ours.contains(row.key)) session_->selector.pass_over(row);
  }
  work.turn.more = true;
}

}  // namespace outbox::postgres
