// What a settler keeps beside the outbox's own rows.
#include <fmt/format.h>

#include <utility>

#include "storage/mapping/attempt_text.h"
#include "storage/postgres/settler.h"

namespace outbox::postgres {

void Settler::write_beside(Item& item, const Looks& looks, const Holder& holder) {
  SideRow& side = item.side;
  const auto found = looks.find(item.key);
  item.written = Written::gone;
  if (found == looks.end() || found->second.fingerprint != item.handle.fingerprint) return;
  const std::string& present = found->second.state;
  const bool open = present == state::kPending || present == state::kFailed;
  if (!side.state && !open) return;
  if (!side.state) side.retry_count = found->second.retry_count;
  side.state = item.change.state;
  side.retry_count = side.retry_count.value_or(0) + item.change.charge;
  side.error = item.change.error;
  side.due = item.change.due;
  side.dead_letter_reason = item.change.dead_reason;
  side.processed_on =
      is(item.change.state, state::kProcessed) ? std::optional(holder.now) : std::nullopt;
  item.written = Written::beside;
}

void Settler::isolate(const Item& item, const std::string& error, Settled& settled) {
  ++settled.isolated;
  if (settled.isolated_error.empty()) {
    settled.isolated_error = fmt::format("row {}: {}", item.key, error);
  }
}

// A decided row needs no notes, but for its generation.
// Returns those that were written, wherever.
Settler::Items Settler::keep(const Items& items, Settled& settled) {
  std::map<std::string, SideRow> kept;
  std::vector<std::string> erased;
  Items written;
  for (Item* item : items) {
    if (item->written == Written::gone) {
      ++settled.fenced;
      continue;
    }
    written.push_back(item);
    if (item->late) settled.freed.push_back(item->handle);
    const SideRow& side = item->side;
    if (!is(item->change.state, state::kProcessed)) {
      kept.emplace(item->key, side);
    } else if (side.state || side.generation > 0) {
      SideRow last;
      last.state = side.state;
      last.retry_count = side.retry_count;
      last.processed_on = side.processed_on;
      last.generation = side.generation;
      last.fingerprint = side.fingerprint;
      kept.emplace(item->key, last);
    } else if (item->had_side) {
      erased.push_back(item->key);
    }
  }
  side_rows_.write(kept);
  side_rows_.erase(erased);
  return written;
}

void Settler::log(const Items& items, const Holder& holder) {
  std::vector<std::string> keys;
  std::vector<std::string> outcomes;
  std::vector<std::string> reasons;
  for (const Item* item : items) {
    if (item->settlement == nullptr || !is_kept(*item->settlement, kept_)) continue;
    keys.push_back(item->key);
    outcomes.push_back(outcome_of(*item->settlement));
    reasons.push_back(safe_text(connection_, reason_of(*item->settlement)));
  }
  if (!keys.empty()) attempts_.run(outbox_, holder.now, keys, outcomes, reasons);
}

void Settler::audit_deaths(const Items& items, const Holder& holder) {
  std::vector<std::string> keys;
  std::vector<std::string> reasons;
  for (const Item* item : items) {
    if (!is(item->change.state, state::kDeadLettered)) continue;
    keys.push_back(item->key);
    reasons.push_back(fmt::format("{}: {}", item->change.dead_reason.value_or(""),
                                  item->change.error.value_or("")));
  }
  if (keys.empty()) return;
  Looks looks;
  read_looks(peek_.rows(keys), false, looks);
  std::vector<std::optional<std::string>> ids;
  for (const std::string& key : keys) {
    const auto found = looks.find(key);
    ids.push_back(found == looks.end() ? std::nullopt
                                       : std::optional(shortened(found->second.event_id)));
  }
  audit_.run(outbox_, holder.now, keys, ids, reasons);
}

Settler::Looks Settler::look(const std::vector<std::string>& keys) {
  if (wary_) return look_at_free(keys);
  Looks looks;
  read_looks(look_.rows(keys), false, looks);
  return looks;
}

Settler::Looks Settler::look_at_free(const std::vector<std::string>& keys) {
  Looks looks;
  read_looks(look_at_free_.rows(keys), false, looks);
  std::vector<std::string> rest;
  for (const std::string& key : keys) {
    if (!looks.contains(key)) rest.push_back(key);
  }
  if (!rest.empty()) read_looks(peek_.rows(rest), true, looks);
  return looks;
}

void Settler::read_looks(Rows rows, bool locked, Looks& looks) {
  while (rows.next()) {
    looks[rows.text(0)] = {
        rows.text(1), rows.integer(2), static_cast<std::uint32_t>(rows.integer(3)),
        rows.text(4), rows.text(5),    locked};
  }
}

void Settler::find_locked(const Items& items) {
  const Looks looks = look_at_free(keys_not_written(items));
  for (Item* item : items) item->locked = is_locked(item->key, looks);
}

bool Settler::is_locked(const std::string& key, const Looks& looks) {
  const auto found = looks.find(key);
  return found != looks.end() && found->second.locked;
}

std::vector<std::string> Settler::write_again(const std::vector<std::string>& keys,
                                              const Holder& holder) {
  std::vector<std::string> locked;
  const Looks looks = look_at_free(keys);
  // Read under the rows' locks, so that no redrive comes in between.
  auto sides = side_rows_.read(keys);
  std::map<std::string, std::vector<Item>> by_state;
  for (const std::string& key : keys) {
    if (is_locked(key, looks)) locked.push_back(key);
    const auto found = looks.find(key);
    const auto side = sides.find(key);
    if (found == looks.end() || found->second.locked || side == sides.end()) continue;
    Item item;
    item.key = key;
    item.handle.fingerprint = found->second.fingerprint;
    item.had_side = true;
    item.side = std::move(side->second);
    if (!item.side.state || !item.side.is_of(item.handle.fingerprint)) continue;
    item.change.error = item.side.error;
    item.change.dead_reason = item.side.dead_letter_reason;
    item.change.due = item.side.due;
    by_state[*item.side.state].push_back(std::move(item));
  }
  Settled ignored;
  for (const char* name : {state::kProcessed, state::kFailed, state::kDeadLettered}) {
    Items items;
    for (Item& item : by_state[name]) {
      item.change.state = name;
      items.push_back(&item);
    }
    write_in_place(items, name, holder, ignored);
    std::erase_if(items, [](const Item* item) { return item->written != Written::in_place; });
    keep(items, ignored);
  }
  return locked;
}

std::vector<BuriedRow> Settler::bury(const std::vector<Killer>& killers, const Holder& holder) {
  std::vector<BuriedRow> buried;
  if (killers.empty()) return buried;
  std::vector<std::string> keys;
  for (const Killer& killer : killers) keys.push_back(killer.key);
  const auto looks = look(keys);
  const auto sides = side_rows_.read(keys);
  std::vector<Item> items;
  for (const Killer& killer : killers) {
    const auto found = looks.find(killer.key);
    if (found == looks.end()) continue;
    Item item;
    item.key = killer.key;
    item.handle.fingerprint = found->second.fingerprint;
    if (const auto side = sides.find(killer.key);
        side != sides.end() && side->second.is_of(item.handle.fingerprint)) {
      item.side = side->second;
    }
    item.side.fingerprint = item.handle.fingerprint;
    item.side.waits_for_recovery_epoch.reset();
    item.change.state = state::kDeadLettered;
    item.change.error = fmt::format("{} relays died while they held only this row", killer.crashes);
    item.change.dead_reason = name_of(DeadReason::crashed);
    buried.push_back({found->second.event_id, found->second.event_type,
                      static_cast<std::uint32_t>(item.side.state ? item.side.retry_count.value_or(0)
                                                                 : found->second.retry_count),
                      *item.change.error});
    items.push_back(std::move(item));
  }
  Items all;
  for (Item& item : items) all.push_back(&item);
  Settled ignored;
  write(all, holder, ignored);
  audit_deaths(keep(all, ignored), holder);
  return buried;
}

}  // namespace outbox::postgres
