#include "storage/sqlite/candidates.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "storage/sqlite/side_rows.h"

namespace outbox::sqlite {
namespace {

constexpr std::size_t kOddMax = 64;
constexpr auto kLockedWalkInterval = std::chrono::minutes{1};
constexpr std::int64_t kCountedMax = 50'000'000;
constexpr std::size_t kWalkedCheap = 8;  // rows walked over cost as much as one looked at
constexpr auto kOddInterval = std::chrono::seconds{1};
// A due time farther ahead than its own delay, by more than this, was set by a clock that has since
// been put back.
constexpr auto kClockSlack = std::chrono::minutes{1};
constexpr auto kDelayMax = std::chrono::hours{25};  // where the delay is not known

// What every candidate is read from. Neither typeof() nor length() of a blob reads the payload.
std::string own_columns(const Sql& sql) {
  const Columns& c = sql.mapping().columns;
  const std::string payload = sql.column(c.payload);
  return fmt::format("{}, {}, {}, {}, CASE typeof({}) WHEN 'blob' THEN length({}) END",
                     sql.row_key(), sql.order(), sql.value(c.not_before), sql.value(c.ordering_key),
                     payload, payload);
}

std::string candidate_columns(const Sql& sql, const std::string& due) {
  return fmt::format(
      "{}, l.incarnation, r.state, r.takeovers, r.row_key IS NOT NULL, {}, r.last_delay_ms",
      own_columns(sql), due);
}

// When a failed row is due, where the table's own columns can hold it.
std::string due_column(const Sql& sql) {
  const Mapping& mapping = sql.mapping();
  return mapping.holds_failed() ? sql.column(mapping.columns.next_attempt) : "NULL";
}

std::string outbox_sql(const Sql& sql, const std::string& from, const std::string& rest) {
  return fmt::format("SELECT {} FROM {} {} WHERE {}", candidate_columns(sql, due_column(sql)), from,
                     sql.beside(), rest);
}

// From the relay's side rows to the outbox.
std::string side_sql(const Sql& sql, const std::string& index, const std::string& rest) {
  return fmt::format(
      "SELECT {} FROM {} LEFT JOIN outbox_relay_leases AS l ON l.outbox = ?1 "
      "AND l.row_key = r.row_key WHERE {}",
      candidate_columns(sql, "r.due"), sql.from_side(index), rest);
}

// Nothing for a row without a key: there is no name by which it could be leased.
std::optional<Candidate> read_own(const Query::Rows& rows) {
  auto key = rows.value(0);
  if (!key) return std::nullopt;
  Candidate candidate;
  candidate.key = std::move(*key);
  candidate.place = rows.integer(1);
  candidate.not_before = rows.maybe_text(2);
  candidate.ordering_key = rows.maybe_text(3);
  if (!rows.null(4)) candidate.payload_size = static_cast<std::uint64_t>(rows.integer(4));
  return candidate;
}

std::optional<Candidate> read(const Query::Rows& rows) {
  auto found = read_own(rows);
  if (!found) return std::nullopt;
  Candidate& candidate = *found;
  candidate.holder = rows.maybe_integer(5);
  candidate.noted = rows.integer(8) != 0;
  candidate.due = rows.maybe_text(9);
  if (!candidate.noted) return found;
  candidate.side_state = rows.maybe_text(6);
  candidate.takeovers = rows.integer(7);
  candidate.last_delay_ms = rows.maybe_integer(10);
  return found;
}

}  // namespace

Candidates::Candidates(Connection& connection, const Sql& sql, std::string outbox)
    : outbox_(std::move(outbox)),
      keys_in_order_(sql.mapping().key_is_order()),
      indexed_(sql.has_pending_index()),
      unmarked_(connection.database(),
                fmt::format("SELECT {0} FROM {1} WHERE {2} AND {3} > ?1 ORDER BY {3} LIMIT ?2",
                            own_columns(sql), sql.from_pending(), sql.is_pending(), sql.order())),
      lease_beyond_(connection.database(),
                    "SELECT 1 FROM outbox_relay_leases WHERE outbox = ?1 AND row_key > ?2 LIMIT 1"),
      side_beyond_(connection.database(),
                   "SELECT 1 FROM outbox_relay_rows WHERE outbox = ?1 AND row_key > ?2 LIMIT 1"),
      pending_(connection.database(),
               outbox_sql(sql, sql.from_pending(),
                          fmt::format("{0} AND {1} > ?2 ORDER BY {1} LIMIT ?3", sql.is_pending(),
                                      sql.order()))),
      failed_(connection.database(),
              outbox_sql(sql, sql.from_failed(),
                         fmt::format("{0} AND ({1}, {2}) > (?2, ?3) ORDER BY {1}, {2} LIMIT ?4",
                                     sql.is_failed(), due_column(sql), sql.order()))),
      dueless_(connection.database(),
               outbox_sql(sql, sql.from_failed(),
                          fmt::format("{0} AND {1} IS NULL AND r.state IS NULL "
                                      "ORDER BY {2} LIMIT ?2",
                                      sql.is_failed(), due_column(sql), sql.order()))),
      farthest_(connection.database(),
                outbox_sql(sql, sql.from_failed(),
                           fmt::format("{0} AND {1} > ?2 ORDER BY {1} DESC, {2} DESC LIMIT ?3",
                                       sql.is_failed(), due_column(sql), sql.order()))),
      beside_(connection.database(),
              side_sql(sql, "outbox_relay_rows_state",
                       "r.outbox = ?1 AND r.state IS NOT NULL AND r.state = ?2 "
                       "ORDER BY r.due, r.row_key LIMIT ?3")),
      waiting_(connection.database(),
               side_sql(sql, "outbox_relay_rows_waiting",
                        fmt::format("r.outbox = ?1 AND r.waits_for_recovery_epoch IS NOT NULL "
                                    "AND r.waits_for_recovery_epoch <= ?2 "
                                    "AND coalesce(r.state, {}) = '{}' "
                                    "ORDER BY r.waits_for_recovery_epoch, r.row_key LIMIT ?3",
                                    sql.state_name(), state::kFailed))),
      one_(
          connection.database(),
          outbox_sql(sql, sql.table() + " AS o",
                     fmt::format("{} = ?2 AND coalesce(r.state, {}) IN ('{}', '{}')", sql.row_key(),
                                 sql.state_name(), state::kPending, state::kFailed))),
      count_(sql.has_pending_index() ? std::optional<Query>()
                                     : std::optional<Query>(std::in_place, connection.database(),
                                                            sql.count(kCountedMax))) {}

bool Candidates::begin(Time now, WallTime wall, bool changed, bool unlocked, std::size_t budget) {
  now_ = now;
  wall_ = wall;
  wall_text_ = to_text(wall);
  budget_ = budget;
  fresh_resume_ = INT64_MIN;
  fresh_seen_ = false;
  due_seen_ = false;
  next_due_.reset();
  if (changed) {
    fresh_.note_change();
    due_.note_change();
  }
  due_resume_ = {};
  const Sweep::Start due_start = due_.begin(now);
  if (due_start == Sweep::Start::peek) due_resume_ = due_position_;
  if (due_start != Sweep::Start::resume) due_position_ = {};
  if (!may_walk(unlocked)) return false;
  const Sweep::Start start = fresh_.begin(now);
  if (start == Sweep::Start::resume) return false;
  note_walk();
  if (start == Sweep::Start::peek) fresh_resume_ = fresh_position_;
  fresh_position_ = INT64_MIN;
  return true;
}

// Without an index, starting over walks through all that is processed: seldom, and hardly ever
// under the write lock.
bool Candidates::may_walk(bool unlocked) const {
  return indexed_ || unlocked || !walked_at_ || now_ - *walked_at_ >= kLockedWalkInterval;
}

void Candidates::note_walk() {
  walked_at_ = now_;
  if (!count_) return;
  auto rows = count_->rows();
  if (rows.next()) fresh_.pass(static_cast<std::size_t>(rows.integer(0)) / kWalkedCheap);
}

void Candidates::end() {
  fresh_position_ = std::max(fresh_position_, fresh_resume_);
  due_position_ = std::max(due_position_, due_resume_);
  apply_turn_back();
}

void Candidates::start_over() {
  fresh_ = {};
  due_ = {};
  fresh_position_ = INT64_MIN;
  back_to_.reset();
  start_over_due();
}

void Candidates::apply_turn_back() {
  if (back_to_ && *back_to_ <= fresh_position_) {
    fresh_position_ = *back_to_ - 1;
    fresh_.leave_end();
  }
  back_to_.reset();
}

void Candidates::walk_fresh(const std::function<bool()>& enough, const Visitor& visit) {
  if (enough()) return;
  apply_turn_back();
  fresh_.leave_end();
  const bool unmarked = all_unmarked_beyond(fresh_position_);
  auto rows = unmarked ? unmarked_.rows(fresh_position_, budget_)
                       : pending_.rows(outbox_, fresh_position_, budget_);
  std::size_t seen = 0;
  while (rows.next()) {
    if (enough()) return;
    ++seen;
    const auto candidate = unmarked ? read_own(rows) : read(rows);
    const bool elsewhere =
        !candidate || (candidate->side_state && candidate->side_state != state::kPending);
    const Step step = elsewhere ? Step::passed : visit(*candidate);
    if (step == Step::halt) return;
    if (step == Step::passed) fresh_.pass();
    fresh_position_ = rows.integer(1);
  }
  if (seen == budget_) return;  // the next walk goes on
  fresh_.reach_end();
  fresh_seen_ = true;
}

// Mostly nobody has leased or noted any row behind the position. To know it once spares looking
// each row up in two tables.
bool Candidates::all_unmarked_beyond(std::int64_t position) {
  if (!keys_in_order_) return false;
  auto leases = lease_beyond_.rows(outbox_, position);
  if (leases.next()) return false;
  auto sides = side_beyond_.rows(outbox_, position);
  return !sides.next();
}

void Candidates::walk_due(const std::function<bool()>& enough, const Visitor& visit) {
  walk_beside(enough, visit);
  walk_odd(enough, visit);
  walk_index(enough, visit);
}

void Candidates::walk_index(const std::function<bool()>& enough, const Visitor& visit) {
  if (enough()) return;
  due_.leave_end();
  auto rows = failed_.rows(outbox_, due_position_.due, due_position_.place, budget_);
  std::size_t seen = 0;
  while (rows.next()) {
    if (enough()) return;
    ++seen;
    const auto candidate = read(rows);
    const std::string when = rows.text(9);
    const Due due = due_of(when);
    if (due == Due::later_as_all_after) break;
    const bool elsewhere = !candidate || due == Due::later || candidate->side_state;
    const Step step = elsewhere ? Step::passed : visit(*candidate);
    if (step == Step::halt) return;
    if (step == Step::passed) due_.pass();
    due_position_ = {when, rows.integer(1)};
  }
  if (seen == budget_) return;
  due_.reach_end();
  due_seen_ = true;
}

// Rows whose state is kept beside them, because the outbox's own can't be written.
void Candidates::walk_beside(const std::function<bool()>& enough, const Visitor& visit) {
  for (const char* name : {state::kFailed, state::kPending}) {
    auto rows = beside_.rows(outbox_, name, budget_);
    while (!enough() && rows.next()) {
      const auto candidate = read(rows);
      if (!candidate) continue;
      if (candidate->due && due_of(*candidate->due) != Due::now && !is_absurd(*candidate)) break;
      if (visit(*candidate) == Step::halt) return;
    }
  }
}

// Once a second: failed rows without a due time, or with one that no delay explains.
void Candidates::walk_odd(const std::function<bool()>& enough, const Visitor& visit) {
  if (odd_looked_at_ && now_ - *odd_looked_at_ < kOddInterval) return;
  odd_looked_at_ = now_;
  {
    auto rows = dueless_.rows(outbox_, kOddMax);
    while (!enough() && rows.next()) {
      const auto candidate = read(rows);
      if (candidate && visit(*candidate) == Step::halt) {
        odd_looked_at_.reset();
        return;
      }
    }
  }
  auto rows = farthest_.rows(outbox_, to_text(wall_ + kClockSlack), kOddMax);
  while (!enough() && rows.next()) {
    const auto candidate = read(rows);
    if (!candidate || candidate->side_state || !is_absurd(*candidate)) continue;
    if (visit(*candidate) == Step::halt) {
      odd_looked_at_.reset();
      return;
    }
  }
}

void Candidates::walk_waiting(std::int64_t epoch_max, const std::function<bool()>& enough,
                              const Visitor& visit) {
  auto rows = waiting_.rows(outbox_, epoch_max, budget_);
  while (!enough() && rows.next()) {
    const auto candidate = read(rows);
    if (candidate && visit(*candidate) == Step::halt) return;
  }
}

std::optional<Candidate> Candidates::find(const Value& key) {
  auto rows = one_.rows(outbox_, key);
  return rows.next() ? read(rows) : std::nullopt;
}

void Candidates::turn_back(std::int64_t place) {
  due_.note_change();
  back_to_ = std::min(back_to_.value_or(place), place);
}

// Our own form sorts like time, so that the first row that is due later ends a walk. A person may
// have written another one: what is no time at all is due now.
Candidates::Due Candidates::due_of(const std::string& text) {
  const bool own_form = text.size() == wall_text_.size() && text[10] == 'T' && text.back() == 'Z';
  if (own_form && text <= wall_text_) return Due::now;
  const auto time = parse_time(text);
  if (!time || *time <= wall_) return Due::now;
  next_due_ = std::min(next_due_.value_or(*time), *time);
  return own_form ? Due::later_as_all_after : Due::later;
}

bool Candidates::is_absurd(const Candidate& candidate) const {
  const auto due = parse_time(candidate.due.value_or(""));
  if (!due) return false;
  const auto ahead = *due - wall_;
  if (!candidate.last_delay_ms) return ahead > kDelayMax;
  return ahead > std::chrono::milliseconds(*candidate.last_delay_ms) + kClockSlack;
}

}  // namespace outbox::sqlite
