#include "tests/conformance/isolation_reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace outbox::conformance::isolation {
namespace {

constexpr const char* kPending = "Pending";
constexpr const char* kFailed = "Failed";
constexpr const char* kProcessed = "Processed";
constexpr const char* kDead = "DeadLettered";

bool is_open(const RowView& row) { return row.state == kPending || row.state == kFailed; }

bool same_lease(const RowView& one, const RowView& other) {
  if (!one.lease || !other.lease) return one.lease.has_value() == other.lease.has_value();
  return one.lease->epoch == other.lease->epoch &&
         one.lease->incarnation == other.lease->incarnation;
}

std::string described(const RowView& row) {
  std::string text = fmt::format("{} {}", row.id, row.state);
  if (row.generation > 0) text += fmt::format(" of generation {}", row.generation);
  if (row.lease) text += fmt::format(" leased under {}", row.lease->epoch);
  return text;
}

// But for what time alone changes.
void require_same(const RowView& expected, const RowView& row) {
  if (expected.id == row.id && expected.state == row.state &&
      expected.generation == row.generation && same_lease(expected, row)) {
    return;
  }
  throw Violation(fmt::format("expected {}, but there is {}", described(expected), described(row)));
}

void require_same(const std::vector<RowView>& expected, const std::vector<RowView>& rows) {
  if (expected.size() != rows.size()) {
    throw Violation(fmt::format("there are {} rows instead of {}", rows.size(), expected.size()));
  }
  for (std::size_t i = 0; i < rows.size(); ++i) require_same(expected[i], rows[i]);
}

RowView& row_of(std::vector<RowView>& rows, const std::string& id) {
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const RowView& row) { return row.id == id; });
  if (found == rows.end()) throw Violation(fmt::format("the row {} is gone", id));
  return *found;
}

// The mark that this step has signed.
std::optional<MarkView> signed_by(const View& before, const View& now, std::uint64_t turn) {
  for (const MarkView& mark : now.marks) {
    if (mark.turn != turn) continue;
    const auto same = [&](const MarkView& one) {
      return one.incarnation == mark.incarnation && one.epoch == mark.epoch;
    };
    if (std::none_of(before.marks.begin(), before.marks.end(), same)) return mark;
  }
  return std::nullopt;
}

// Promise P8. False: it was fenced.
bool settle(RowView& row, const Settlement& settlement) {
  const bool ours = row.lease && row.lease->epoch == settlement.lease;
  const bool late = !ours && settlement.verdict == Verdict::delivered && is_open(row) &&
                    row.generation == settlement.generation;
  if (!ours && !late) return false;
  row.lease.reset();
  switch (settlement.verdict) {
    case Verdict::delivered:
      row.state = kProcessed;
      break;
    case Verdict::retry:
    case Verdict::held:
      row.state = kFailed;
      break;
    case Verdict::dead:
      row.state = kDead;
      break;
    case Verdict::released:
      break;
  }
  return true;
}

// A late confirmation may wait until the row is locked by nobody.
bool is_put_off(const Asked::Verdict& verdict, std::vector<RowView>& rows, const View& now) {
  const RowView& row = row_of(rows, verdict.id);
  const RowView* then = find_row(now, verdict.id);
  const bool ours = row.lease && row.lease->epoch == verdict.settlement.lease;
  return !ours && verdict.settlement.verdict == Verdict::delivered && is_open(row) &&
         row.generation == verdict.settlement.generation && then != nullptr && is_open(*then);
}

// Promise P6: a lease ends by its relay, or when its time is over; then all of that relay do.
std::size_t end_leases_of_others(std::vector<RowView>& expected, const View& now,
                                 std::int64_t self) {
  std::size_t ended = 0;
  std::set<std::int64_t> relays;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    RowView& row = expected[i];
    if (!row.lease || row.lease->incarnation == self || same_lease(row, now.rows[i])) continue;
    if (!row.lease->ended) {
      throw Violation(fmt::format("{} was taken from a relay that holds it still", row.id));
    }
    relays.insert(row.lease->incarnation);
    row.lease.reset();
    ++ended;
  }
  for (const RowView& row : expected) {
    if (row.lease && relays.contains(row.lease->incarnation)) {
      throw Violation(fmt::format("{} was left to a relay that lost its other rows", row.id));
    }
  }
  return ended;
}

void take_leases(std::vector<RowView>& expected, const View& now, const MarkView& mark,
                 Effect& effect) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const std::optional<LeaseView>& lease = now.rows[i].lease;
    RowView& row = expected[i];
    if (!lease || row.lease) continue;
    if (lease->epoch != mark.epoch || lease->incarnation != mark.incarnation) {
      throw Violation(fmt::format("{} was leased for somebody else", described(now.rows[i])));
    }
    if (!is_open(row) || row.waits) {
      throw Violation(fmt::format("{} was leased, which was {}{}", row.id, row.state,
                                  row.waits ? " and not due" : ""));
    }
    row.lease = lease;
    effect.leased.push_back(row.id);
  }
}

// Promise P3, where a dead letter blocks its key.
void require_order(const View& view) {
  std::map<std::string, std::vector<const RowView*>> keys;
  for (const RowView& row : view.rows) {
    if (row.key.empty()) continue;
    for (const RowView* earlier : keys[row.key]) {
      const bool same_holder =
          row.lease && earlier->lease && row.lease->incarnation == earlier->lease->incarnation;
      const bool fine = is_open(*earlier) ? row.state != kProcessed && (!row.lease || same_holder)
                                          : !row.lease || earlier->state == kProcessed;
      if (!fine) {
        throw Violation(fmt::format("{} overtook {}", described(row), described(*earlier)));
      }
    }
    keys[row.key].push_back(&row);
  }
}

}  // namespace

const RowView* find_row(const View& view, const std::string& id) {
  const auto found = std::find_if(view.rows.begin(), view.rows.end(),
                                  [&](const RowView& row) { return row.id == id; });
  return found == view.rows.end() ? nullptr : &*found;
}

std::optional<Effect> Reference::session_moved(const View& now, const Asked& asked,
                                               std::int64_t incarnation) {
  const std::optional<Effect> effect = explain(now, asked, incarnation);
  accept(now);
  return effect;
}

std::optional<Effect> Reference::explain(const View& now, const Asked& asked,
                                         std::int64_t incarnation) {
  std::vector<RowView> expected = view_.rows;
  if (now.rows.size() != expected.size()) throw Violation("a relay changed the number of rows");
  const auto mark = signed_by(view_, now, asked.number);
  if (!mark) {
    if (asked.retires) expected = retired(now, incarnation);
    if (asked.redrives) expected = redriven(now);
    require_same(expected, now.rows);
    return std::nullopt;
  }
  Effect effect;
  effect.committed = true;
  effect.incarnation = mark->incarnation;
  effect.epoch = mark->epoch;
  for (const Asked::Verdict& verdict : asked.postponed) {
    if (!is_put_off(verdict, expected, now))
      settle(row_of(expected, verdict.id), verdict.settlement);
  }
  for (const Asked::Verdict& verdict : asked.verdicts) {
    if (is_put_off(verdict, expected, now)) {
      effect.postponed.push_back(verdict);
    } else if (!settle(row_of(expected, verdict.id), verdict.settlement)) {
      ++effect.fenced;
      if (verdict.settlement.verdict == Verdict::delivered) ++effect.too_late;
    }
  }
  effect.taken_over = end_leases_of_others(expected, now, mark->incarnation);
  take_leases(expected, now, *mark, effect);
  require_same(expected, now.rows);
  if (effect.leased.size() > asked.limit) throw Violation("more was leased than was asked for");
  return effect;
}

// All of its leases have ended, or none yet.
std::vector<RowView> Reference::retired(const View& now, std::int64_t incarnation) const {
  std::vector<RowView> expected = view_.rows;
  const bool marked = std::any_of(now.marks.begin(), now.marks.end(), [&](const MarkView& mark) {
    return mark.incarnation == incarnation;
  });
  for (RowView& row : expected) {
    if (!marked && row.lease && row.lease->incarnation == incarnation) row.lease.reset();
  }
  return expected;
}

// All dead letters are driven again, or none yet.
std::vector<RowView> Reference::redriven(const View& now) const {
  std::vector<RowView> expected = view_.rows;
  const bool done = std::none_of(now.rows.begin(), now.rows.end(),
                                 [](const RowView& row) { return row.state == kDead; });
  for (RowView& row : expected) {
    if (!done || row.state != kDead) continue;
    row.state = kPending;
    ++row.generation;
  }
  return expected;
}

void Reference::rows_came(const View& now, const std::vector<NewRow>& rows) {
  std::vector<RowView> expected = view_.rows;
  for (const NewRow& row : rows) {
    const RowView* found = find_row(now, row.id);
    if (found == nullptr)
      throw Violation(fmt::format("{} was committed, and is not there", row.id));
    expected.push_back({row.id, row.ordering_key.value_or(""), kPending, false, 0, std::nullopt});
  }
  // Where the table has them is the database's business.
  std::vector<RowView> came = now.rows;
  const auto by_id = [](const RowView& one, const RowView& other) { return one.id < other.id; };
  std::sort(expected.begin(), expected.end(), by_id);
  std::sort(came.begin(), came.end(), by_id);
  require_same(expected, came);
  accept(now);
}

void Reference::time_passed(const View& now) {
  require_same(view_.rows, now.rows);
  accept(now);
}

std::optional<std::string> Reference::unrest() const {
  std::set<std::string> blocked;
  for (const RowView& row : view_.rows) {
    const bool behind = !row.key.empty() && blocked.contains(row.key);
    if (row.state == kDead && ordering_ == Ordering::key) blocked.insert(row.key);
    if (row.lease || (is_open(row) && !behind)) return described(row);
  }
  return std::nullopt;
}

void Reference::accept(const View& now) {
  for (const RowView& row : now.rows) {
    if (row.id.empty()) throw Violation("a row is leased that was never committed");
  }
  if (ordering_ == Ordering::key) require_order(now);
  require_rise(now);
  view_ = now;
}

// Promise P6: a row's fencing epoch only rises.
void Reference::require_rise(const View& now) {
  for (const RowView& row : now.rows) {
    const RowView* was = find_row(view_, row.id);
    if (!row.lease || (was != nullptr && same_lease(*was, row))) continue;
    LeaseId& highest = highest_[row.id];
    if (row.lease->epoch <= highest) {
      throw Violation(fmt::format("{}, which had epoch {} before", described(row), highest));
    }
    highest = row.lease->epoch;
  }
}

}  // namespace outbox::conformance::isolation
