#include "storage/postgres/settler.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "storage/mapping/attempt_text.h"
#include "storage/postgres/settler_sql.h"

namespace outbox::postgres {
namespace {

constexpr std::size_t kRefusingMax = 10'000;

std::optional<Query> query_if(Connection& connection, std::string sql) {
  if (sql.empty()) return std::nullopt;
  return std::optional<Query>(std::in_place, connection, std::move(sql));
}

}  // namespace

Settler::Settler(Connection& connection, const Sql& sql, SideRows& side_rows)
    : connection_(connection),
      sql_(sql),
      outbox_(sql.outbox()),
      side_rows_(side_rows),
      end_leases_(connection, fmt::format("DELETE FROM {} WHERE outbox = $1 AND row_key = ANY($3) "
                                          "AND epoch = $4 AND incarnation = $2 "
                                          "RETURNING row_key, noted",
                                          sql.leases())),
      end_any_leases_(
          connection,
          fmt::format("DELETE FROM {} WHERE outbox = $1 AND row_key = ANY($2)", sql.leases())),
      mark_processed_(query_if(connection, processed_sql(sql))),
      mark_failed_(query_if(connection, failed_sql(sql))),
      mark_dead_(query_if(connection, dead_sql(sql))),
      look_(connection, look_sql(sql, Lock::wait)),
      look_at_free_(connection, look_sql(sql, Lock::skip)),
      peek_(connection, look_sql(sql, Lock::none)),
      audit_(connection,
             fmt::format("INSERT INTO {} (outbox, row_key, event_id, at, action, reason) "
                         "SELECT $1, x.key, x.id, $2, 'dead_letter', x.reason "
                         "FROM unnest($3, $4, $5) AS x(key, id, reason)",
                         sql.audit())),
      attempts_(connection, fmt::format("INSERT INTO {} (outbox, row_key, at, outcome, reason) "
                                        "SELECT $1, x.key, $2, x.outcome, x.reason "
                                        "FROM unnest($3, $4, $5) AS x(key, outcome, reason)",
                                        sql.attempts())) {}

void Settler::settle(std::span<const Settlement> settlements, const Holder& holder,
                     Settled& settled) {
  Settling settling = begin(settlements, holder.incarnation);
  go_on(settling, holder, settled);
  finish(settling, holder, settled);
}

Settler::Settling Settler::begin(std::span<const Settlement> settlements,
                                 std::int64_t incarnation) {
  std::vector<const Settlement*> all;
  all.reserve(settlements.size());
  for (const Settlement& settlement : settlements) all.push_back(&settlement);
  return begin(all, incarnation);
}

// Each statement takes a row once.
Settler::Settling Settler::begin(const std::vector<const Settlement*>& settlements,
                                 std::int64_t incarnation) {
  Settling settling;
  std::unordered_set<std::string> seen;
  std::map<LeaseId, std::vector<std::string>> keys;
  settling.items.reserve(settlements.size());
  for (const Settlement* settlement : settlements) {
    auto handle = parse_row_id(settlement->row);
    const auto* key = handle ? std::get_if<std::string>(&handle->key) : nullptr;
    if (key == nullptr) {
      ++settling.invalid;
      continue;
    }
    if (!seen.insert(*key).second) {
      settling.later.push_back(settlement);
      continue;
    }
    Item item;
    item.settlement = settlement;
    item.key = *key;
    keys[settlement->lease].push_back(*key);
    item.handle = std::move(*handle);
    settling.items.push_back(std::move(item));
  }
  for (const auto& [epoch, of_epoch] : keys) {
    settling.ended.push_back(end_leases_.send(outbox_, incarnation, of_epoch, epoch));
  }
  return settling;
}

void Settler::go_on(Settling& settling, const Holder& holder, Settled& settled) {
  end_leases(settling, settled);
  std::vector<Item>& items = settling.items;
  std::vector<std::string> late;
  for (const Item& item : items) {
    if (item.late) late.push_back(item.key);
  }
  // Locked before its notes are read, so that no redrive comes in between.
  const Looks looks = late.empty() ? Looks{} : look(late);
  read_sides(items);
  end_leases_of_late(items, looks);
  std::map<std::string, SideRow> doubted;
  for (Item& item : items) {
    if (item.late && is_locked(item.key, looks)) {
      settled.postponed.push_back(*item.settlement);
      continue;
    }
    if (item.late && !may_still_settle(item, looks)) {
      ++settled.fenced;
      continue;
    }
    if (item.settlement->verdict == Verdict::released) {
      item.side.outcome_unknown = true;
      doubted.emplace(item.key, item.side);
      continue;
    }
    note_attempt(item.side, *item.settlement, holder);
    item.change = change_for(*item.settlement, holder);
    settling.active.push_back(&item);
  }
  side_rows_.write(doubted);
  if (may_send_ahead(settling)) {
    settling.update = update(settling.active, state::kProcessed, holder);
  }
}

// Where all goes well, and all rows come to the same.
bool Settler::may_send_ahead(const Settling& settling) const {
  if (settling.active.empty() || !settling.later.empty()) return false;
  if (careful_ || wary_ || !holds(state::kProcessed)) return false;
  return std::all_of(settling.active.begin(), settling.active.end(),
                     [](const Item* item) { return is(item->change.state, state::kProcessed); });
}

void Settler::finish(Settling& settling, const Holder& holder, Settled& settled) {
  if (settling.update) {
    mark(settling.active, keys_of(std::exchange(settling.update, std::nullopt)));
    clear_sides(settling.active);
    write_rest(settling.active, holder, settled);
  } else {
    write(settling.active, holder, settled);
  }
  const Items written = keep(settling.active, settled);
  log(written, holder);
  audit_deaths(written, holder);
  if (settling.later.empty()) return;
  Settling next = begin(settling.later, holder.incarnation);
  go_on(next, holder, settled);
  finish(next, holder, settled);
}

// What is left are the items that there is something to write for.
void Settler::end_leases(Settling& settling, Settled& settled) {
  settled.fenced += settling.invalid;
  std::unordered_map<std::string, bool> ended;
  for (Ahead& of_epoch : settling.ended) {
    Rows rows = of_epoch.rows();
    while (rows.next()) ended[rows.text(0)] = rows.boolean(1);
  }
  std::erase_if(settling.items, [&](Item& item) {
    const Settlement& settlement = *item.settlement;
    const auto found = ended.find(item.key);
    if (found != ended.end()) {
      item.had_side = found->second;
      settled.freed.push_back(item.handle);
      if (settlement.verdict != Verdict::released) return false;
      settled.released.push_back(item.handle);
      return !settlement.outcome_unknown;
    }
    item.late = settlement.verdict == Verdict::delivered;
    item.had_side = item.late;
    if (!item.late) ++settled.fenced;
    return !item.late;
  });
}

// Whoever has such a row now may settle it around our lock, and keep the verdict beside it: but not
// without its lease. Once that has ended, what is read beside the row is the last word.
void Settler::end_leases_of_late(std::vector<Item>& items, const Looks& looks) {
  std::vector<std::string> keys;
  for (const Item& item : items) {
    const bool ends = item.late && !is_locked(item.key, looks) && may_still_settle(item, looks);
    if (ends) keys.push_back(item.key);
  }
  if (keys.empty()) return;
  end_any_leases_.run(outbox_, keys);
  for (Item& item : items) {
    if (!item.late) continue;
    item.had_side = true;
    item.side = {};
  }
  read_sides(items);
}

void Settler::read_sides(std::vector<Item>& items) {
  std::vector<std::string> keys;
  for (const Item& item : items) {
    if (item.had_side) keys.push_back(item.key);
  }
  auto sides = side_rows_.read(keys);
  for (Item& item : items) {
    const auto found = sides.find(item.key);
    item.had_side = found != sides.end() && found->second.is_of(item.handle.fingerprint);
    if (item.had_side) item.side = std::move(found->second);
    item.side.fingerprint = item.handle.fingerprint;
  }
}

// The broker has confirmed a row whose lease was lost: true all the same, unless the row has been
// decided or driven again since.
bool Settler::may_still_settle(const Item& item, const Looks& looks) const {
  const auto found = looks.find(item.key);
  if (found == looks.end() || found->second.fingerprint != item.handle.fingerprint) return false;
  const bool decided =
      item.side.state == state::kProcessed || item.side.state == state::kDeadLettered;
  return !decided && item.side.generation == item.settlement->generation;
}

// Whether the outbox's own columns can say all there is to say about such a row.
bool Settler::holds(const char* state) const {
  if (is(state, state::kProcessed)) return sql_.mapping().holds_processed();
  return is(state, state::kFailed) ? sql_.table().holds_failed() : sql_.mapping().holds_dead();
}

void Settler::note_attempt(SideRow& side, const Settlement& settlement, const Holder& holder) {
  if (settlement.verdict == Verdict::delivered) return;
  side.last_failure = settlement.kind;
  side.last_delay = settlement.delay;
  side.outcome_unknown = side.outcome_unknown || settlement.outcome_unknown;
  if (settlement.counts) ++side.counted;
  side.waits_for_recovery_epoch =
      settlement.waits_for_recovery && settlement.verdict != Verdict::dead
          ? std::optional(static_cast<std::int64_t>(holder.epoch))
          : std::nullopt;
  if (!settlement.attempted) return;
  side.last_attempt = holder.now;
  if (settlement.kind == FailureKind::misconfigured) {
    ++side.misconfigured_tries;
    if (!side.misconfigured_since) side.misconfigured_since = holder.now;
  } else {
    side.misconfigured_tries = 0;
    side.misconfigured_since.reset();
  }
}

Settler::Change Settler::change_for(const Settlement& settlement, const Holder& holder) const {
  Change change;
  const std::string error = shortened(safe_text(connection_, settlement.reason));
  switch (settlement.verdict) {
    case Verdict::released:
      break;
    case Verdict::delivered:
      change.state = state::kProcessed;
      break;
    case Verdict::retry:
      change.charge = settlement.charge;
      [[fallthrough]];
    case Verdict::held:
      change.state = state::kFailed;
      change.error = error;
      change.due = holder.now + std::chrono::ceil<std::chrono::microseconds>(settlement.delay);
      break;
    case Verdict::dead:
      change.state = state::kDeadLettered;
      change.charge = settlement.charge;
      change.error = error;
      change.dead_reason = name_of(settlement.dead_reason);
      break;
  }
  return change;
}

// In the row itself where that can hold it, else beside.
void Settler::write(const Items& items, const Holder& holder, Settled& settled) {
  if (wary_) find_locked(items);
  for (const char* name : {state::kProcessed, state::kFailed, state::kDeadLettered}) {
    Items group;
    for (Item* item : items) {
      if (is(item->change.state, name) && !item->locked) group.push_back(item);
    }
    if (!group.empty() && holds(name)) write_in_place(group, name, holder, settled);
  }
  write_rest(items, holder, settled);
}

// Beside their rows.
void Settler::write_rest(const Items& items, const Holder& holder, Settled& settled) {
  const std::vector<std::string> keys = keys_not_written(items);
  if (keys.empty()) return;
  const auto looks = look(keys);
  std::map<std::string, Items> shown;
  for (Item* item : items) {
    if (item->written != Written::not_yet) continue;
    const bool tried = holds(item->change.state);
    const bool first = !item->side.state;
    write_beside(*item, looks, holder);
    if (item->written != Written::beside) continue;
    if (item->locked) {
      ++settled.locked;
      if (tried) settled.beside.push_back(item->key);
      continue;
    }
    // There it is, and open: so it was not gone, but stayed as it was.
    if (tried && first && !item->refused) isolate(*item, "a trigger ignores changes", settled);
    if (!tried) shown[item->change.state].push_back(item);
  }
  // Others who look at the table see what its columns can show. It is counted already.
  for (auto& [name, group] : shown) {
    for (Item* item : group) item->change.charge = 0;
    try_update(group, group.front()->change.state, holder, settled);
    for (Item* item : group) item->written = Written::beside;
  }
}

void Settler::write_in_place(const Items& items, const char* state, const Holder& holder,
                             Settled& settled) {
  try_update(items, state, holder, settled);
  clear_sides(items);
}

void Settler::mark(const Items& items, const std::unordered_set<std::string>& changed) {
  for (Item* item : items) {
    if (changed.contains(item->key)) item->written = Written::in_place;
  }
}

// Nothing beside a row stands for its columns any more.
void Settler::clear_sides(const Items& items) {
  for (Item* item : items) {
    if (item->written != Written::in_place) continue;
    SideRow& side = item->side;
    side.state.reset();
    side.dead_letter_reason.reset();
    side.error.reset();
    side.due.reset();
    side.retry_count.reset();
    side.processed_on.reset();
  }
}

std::vector<std::string> Settler::keys_not_written(const Items& items) {
  std::vector<std::string> keys;
  for (const Item* item : items) {
    if (item->written == Written::not_yet) keys.push_back(item->key);
  }
  return keys;
}

// Marks those that were changed, and those that refused. With care, a group with a row that refuses
// is halved until that row is alone.
void Settler::try_update(const Items& items, const char* state, const Holder& holder,
                         Settled& settled) {
  if (items.empty()) return;
  const bool single = items.size() == 1;
  if (!single && careful_) {
    Items known;
    Items others;
    for (Item* item : items) (refusing_.contains(item->key) ? known : others).push_back(item);
    if (!known.empty()) {
      for (Item* item : known) try_update({item}, state, holder, settled);
      return try_update(others, state, holder, settled);
    }
  }
  if (careful_) connection_.command("SAVEPOINT outbox_relay_row");
  std::string refusal;
  try {
    const auto changed = keys_of(update(items, state, holder));
    // What would be looked at no sooner than at the commit, and refuse all rows.
    if (careful_) {
      connection_.command("SET CONSTRAINTS ALL IMMEDIATE; RELEASE SAVEPOINT outbox_relay_row");
    }
    mark(items, changed);
    return;
  } catch (const ServerError& error) {
    if (!careful_ || !is_refusal(error)) throw;
    refusal = error.what();
  } catch (const SchemaChanged& error) {
    if (!careful_ || !fresh_) throw;
    refusal = error.what();  // of what a trigger names
  }
  connection_.command("ROLLBACK TO SAVEPOINT outbox_relay_row; RELEASE SAVEPOINT outbox_relay_row");
  if (single) return refuse(*items.front(), refusal, settled);
  const auto middle = items.begin() + static_cast<std::ptrdiff_t>(items.size() / 2);
  try_update({items.begin(), middle}, state, holder, settled);
  try_update({middle, items.end()}, state, holder, settled);
}

void Settler::refuse(Item& item, const std::string& error, Settled& settled) {
  if (refusing_.size() >= kRefusingMax) refusing_.clear();
  refusing_.insert(item.key);
  item.refused = true;
  isolate(item, error, settled);
}

// Nothing if the table has no column for it.
std::optional<Ahead> Settler::update(const Items& items, const char* state, const Holder& holder) {
  std::vector<std::string> keys;
  std::vector<std::int64_t> fingerprints;
  keys.reserve(items.size());
  fingerprints.reserve(items.size());
  for (const Item* item : items) {
    keys.push_back(item->key);
    fingerprints.push_back(item->handle.fingerprint);
  }
  if (is(state, state::kProcessed)) {
    if (!mark_processed_) return std::nullopt;
    return mark_processed_->send(keys, fingerprints, holder.now);
  }
  std::vector<std::optional<std::int64_t>> counts;
  std::vector<std::int64_t> charges;
  std::vector<std::optional<std::string>> errors;
  std::vector<std::optional<std::string>> reasons;
  std::vector<std::optional<ServerTime>> dues;
  for (const Item* item : items) {
    // While a row is kept beside, its count is, too.
    counts.push_back(item->side.state ? item->side.retry_count : std::nullopt);
    charges.push_back(item->change.charge);
    errors.push_back(item->change.error);
    reasons.push_back(item->change.dead_reason);
    dues.push_back(item->change.due);
  }
  if (is(state, state::kFailed)) {
    if (!mark_failed_) return std::nullopt;
    return mark_failed_->send(keys, fingerprints, counts, charges, errors, dues);
  }
  if (!mark_dead_) return std::nullopt;
  return mark_dead_->send(keys, fingerprints, counts, charges, errors, reasons);
}

// Of the rows that were changed.
std::unordered_set<std::string> Settler::keys_of(std::optional<Ahead> update) {
  std::unordered_set<std::string> keys;
  if (!update) return keys;
  Rows rows = update->rows();
  while (rows.next()) {
    if (!rows.null(0)) keys.insert(rows.text(0));
  }
  return keys;
}

}  // namespace outbox::postgres
