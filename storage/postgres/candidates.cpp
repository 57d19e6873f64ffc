#include "storage/postgres/candidates.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "storage/mapping/states.h"
#include "storage/postgres/row_reader.h"

namespace outbox::postgres {
namespace {

constexpr std::int64_t kOddMax = 64;
constexpr std::size_t kChunkMin = 32;
constexpr std::size_t kChunkMax = 1000;
constexpr std::size_t kBudgetFactor = 10;
constexpr std::size_t kBudgetMin = 1000;
// Of a column of a row that is read whole before it is known whether it can be leased.
constexpr int kInlineValueMax = 4096;
constexpr std::array kBeside{state::kFailed, state::kPending};
constexpr auto kOddInterval = std::chrono::seconds{1};
// A due time farther ahead than its own delay, by more than this, was set by a clock that has since
// been put back.
constexpr auto kClockSlack = std::chrono::minutes{1};
constexpr auto kDelayMax = std::chrono::hours{25};  // where the delay is not known

// What every candidate is read from; $2 is the time. The size of the payload is known without
// reading it.
std::string candidate_columns(const Sql& sql, const std::string& due) {
  const Columns& c = sql.mapping().columns;
  const std::string waits = c.not_before.empty()
                                ? "false"
                                : fmt::format("coalesce({} > $2, false)", sql.time(c.not_before));
  return fmt::format(
      "{}, {}, {}, {}::text, coalesce({}, 0)::int8, l.incarnation, r.state, "
      "coalesce(r.takeovers, 0), r.row_key IS NOT NULL, {}, r.last_delay_ms, {}",
      sql.key_text(), sql.place(), sql.tie(), sql.value(c.ordering_key), sql.payload_size(), due,
      waits);
}

// The scan is bounded before anything is joined to it.
std::string outbox_sql(const Sql& sql, const std::string& from, const std::string& where,
                       const std::string& order) {
  return fmt::format(
      "SELECT {} FROM (SELECT * FROM {} WHERE {}{} ORDER BY {} LIMIT $3) AS o {} "
      "ORDER BY {}",
      candidate_columns(sql, sql.due()), from, where, sql.with_key(), order, sql.beside(), order);
}

// The same for fresh rows, with their versions and all that messages are made of, where nobody has
// leased them.
std::string inline_sql(const Sql& sql, const std::string& where, const std::string& payload_max) {
  return fmt::format(
      "SELECT {}, o.outbox_relay_version, {} FROM (SELECT o.*, o.xmin AS outbox_relay_version "
      "FROM {} WHERE {} AND {}{} ORDER BY {} LIMIT $3) AS o {} ORDER BY {}",
      candidate_columns(sql, sql.due()),
      message_columns(sql,
                      {payload_max, kInlineValueMax, "l.row_key IS NULL AND r.row_key IS NULL"}),
      sql.from(), where, sql.is_pending(), sql.with_key(), sql.order(), sql.beside(), sql.order());
}

std::string outbox_sql(const Sql& sql, const std::string& where, const std::string& order) {
  return outbox_sql(sql, sql.from(), where, order);
}

std::string side_sql(const Sql& sql, const std::string& where, const std::string& order) {
  return fmt::format(
      "SELECT {} FROM {} LEFT JOIN {} AS l ON l.outbox = $1 AND l.row_key = r.row_key "
      "WHERE r.outbox = $1 AND {} ORDER BY {} LIMIT $3",
      candidate_columns(sql, "r.due"), sql.from_side(), sql.leases(), where, order);
}

std::string due_order(const Sql& sql) {
  if (!sql.table().holds_failed()) return sql.order();
  return sql.column(sql.mapping().columns.next_attempt) + ", " + sql.order();
}

// Failed and due; from ($4: the time, $5 and $6: the place) on. Rows that are due at the same time
// may be seen twice: they are told apart by what was read.
std::string due_sql(const Sql& sql, bool first) {
  if (!sql.table().holds_failed()) return outbox_sql(sql, "false AND $2 IS NULL", sql.order());
  const std::string& column = sql.mapping().columns.next_attempt;
  const std::string from =
      first ? ""
            : fmt::format(" AND {} >= {}", sql.column(column), sql.as_column_time(column, "$4"));
  return outbox_sql(sql,
                    fmt::format("{} AND {} <= {}{}", sql.is_failed(), sql.column(column),
                                sql.as_column_time(column, "$2"), from),
                    due_order(sql));
}

std::string farthest_sql(const Sql& sql) {
  if (!sql.table().holds_failed()) return outbox_sql(sql, "false AND $2 IS NULL", sql.order());
  const std::string& column = sql.mapping().columns.next_attempt;
  return outbox_sql(
      sql,
      fmt::format("{} AND {} > {}", sql.is_failed(), sql.column(column),
                  sql.as_column_time(column, "($2::timestamptz + interval '1 minute')")),
      sql.column(column) + " DESC");
}

std::string next_due_sql(const Sql& sql) {
  std::string own = "NULL::timestamptz";
  if (sql.table().holds_failed()) {
    const std::string& column = sql.mapping().columns.next_attempt;
    own = fmt::format("(SELECT {} FROM {} WHERE {} AND {} > {} ORDER BY {} LIMIT 1)", sql.due(),
                      sql.from(), sql.is_failed(), sql.column(column),
                      sql.as_column_time(column, "$2"), sql.column(column));
  }
  return fmt::format(
      "SELECT least({}, (SELECT due FROM {} WHERE outbox = $1 AND state = '{}' AND due > $2 "
      "ORDER BY due LIMIT 1))",
      own, sql.rows(), state::kFailed);
}

Candidate read(const Rows& rows) {
  Candidate candidate;
  candidate.key = rows.text(0);
  candidate.place = {rows.integer(1), rows.text(2)};
  candidate.ordering_key = rows.maybe_text(3);
  candidate.payload_size = static_cast<std::uint64_t>(rows.integer(4));
  candidate.holder = rows.maybe_integer(5);
  candidate.side_state = rows.maybe_text(6);
  candidate.takeovers = rows.integer(7);
  candidate.noted = rows.boolean(8);
  candidate.due = rows.maybe_time(9);
  candidate.last_delay_ms = rows.maybe_integer(10);
  candidate.asked_to_wait = rows.boolean(11);
  return candidate;
}

std::vector<Candidate> read_all(Rows rows) {
  std::vector<Candidate> result;
  result.reserve(static_cast<std::size_t>(rows.size()));
  while (rows.next()) result.push_back(read(rows));
  return result;
}

// What was asked for ahead, if it is what is needed now.
template <class Asked, class Position>
std::optional<Asked> take(std::optional<Asked>& asked, const std::optional<Position>& from,
                          std::size_t chunk) {
  std::optional<Asked> taken = std::exchange(asked, std::nullopt);
  if (taken && (taken->from != from || taken->chunk != chunk)) taken.reset();
  return taken;
}

// Adds what it takes to read on to a walk's cost.
template <class Position>
class Timer {
 public:
  explicit Timer(Walk<Position>& walk) : walk_(walk), begun_(std::chrono::steady_clock::now()) {}
  ~Timer() { walk_.spend(std::chrono::steady_clock::now() - begun_); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

 private:
  Walk<Position>& walk_;
  std::chrono::steady_clock::time_point begun_;
};

}  // namespace

std::string fresh_rows_sql(const Sql& sql) {
  return outbox_sql(sql, sql.is_pending(), sql.order());
}

Candidates::Candidates(Connection& connection, const Sql& sql)
    : sql_(sql),
      outbox_(sql.outbox()),
      pending_first_(connection, fresh_rows_sql(sql)),
      pending_from_(connection,
                    outbox_sql(sql, sql.rows_from("$4", "$5"), sql.is_pending(), sql.order())),
      failed_first_(connection, due_sql(sql, true)),
      failed_from_(connection, due_sql(sql, false)),
      dueless_(connection,
               outbox_sql(sql,
                          sql.table().holds_failed()
                              ? fmt::format("{} AND {} IS NULL", sql.is_failed(),
                                            sql.column(sql.mapping().columns.next_attempt))
                              : "false",
                          sql.order())),
      farthest_(connection, farthest_sql(sql)),
      beside_(connection,
              side_sql(sql,
                       "r.state IS NOT NULL AND r.state = $4 AND (r.due IS NULL OR r.due <= $2 "
                       "OR r.due > $2 + interval '25 hours')",
                       "r.due, r.row_key")),
      waiting_(connection,
               side_sql(sql,
                        fmt::format("r.waits_for_recovery_epoch IS NOT NULL "
                                    "AND r.waits_for_recovery_epoch <= $4 AND {} = '{}'",
                                    sql.whole_state(), state::kFailed),
                        "r.waits_for_recovery_epoch, r.row_key")),
      one_(connection,
           fmt::format("SELECT {} FROM {} {} WHERE {} = {} AND {} IN ('{}', '{}')",
                       candidate_columns(sql, sql.due()), sql.from(), sql.beside(), sql.row_key(),
                       sql.as_key("$3"), sql.whole_state(), state::kPending, state::kFailed)),
      next_due_(connection, next_due_sql(sql)) {
  if (!sql.is_one_range()) return;
  inline_first_.emplace(connection, inline_sql(sql, "true", "$4"));
  inline_from_.emplace(connection, inline_sql(sql, sql.at_or_after("$4", "$5"), "$6"));
}

void Candidates::begin(Time now, ServerTime server, std::size_t wanted) {
  now_ = now;
  server_ = server;
  wanted_ = wanted;
  fresh_seen_ = false;
  due_seen_ = false;
  fresh_.begin(now);
  due_.begin(now);
  loaded_.reset();
  asked_fresh_.reset();
  asked_due_.reset();
  asked_beside_.clear();
}

void Candidates::send_ahead(std::uint64_t payload_max, std::uint64_t bytes) {
  const bool holds_failed = sql_.table().holds_failed();
  const Query& fresh = fresh_.position() ? pending_from_ : pending_first_;
  const Query& due = due_.position() ? failed_from_ : failed_first_;
  if (!beside_.is_prepared() || !fresh.is_prepared()) return;
  if (holds_failed && !due.is_prepared()) return;
  for (const char* name : kBeside) asked_beside_.emplace(name, ask_beside(name));
  const std::size_t chunk = first_chunk();
  if (holds_failed) asked_due_.emplace(due_.position(), chunk, ask_due(chunk));
  const std::uint64_t inline_max = may_inline() ? std::min(payload_max, bytes / chunk) : 0;
  asked_fresh_.emplace(fresh_.position(), chunk,
                       inline_max > 0 ? ask_fresh_inline(chunk, inline_max) : ask_fresh(chunk),
                       inline_max);
}

std::size_t Candidates::first_chunk() const {
  return std::clamp(wanted_ + 1, kChunkMin, kChunkMax);
}

Ahead Candidates::ask_fresh(std::size_t chunk) {
  const auto& from = fresh_.position();
  return from ? pending_from_.send(outbox_, server_, chunk, from->number, from->tie)
              : pending_first_.send(outbox_, server_, chunk);
}

bool Candidates::may_inline() const { return inline_first_.has_value(); }

Ahead Candidates::ask_fresh_inline(std::size_t chunk, std::uint64_t inline_max) {
  const auto& from = fresh_.position();
  return from ? inline_from_->send(outbox_, server_, chunk, from->number, from->tie, inline_max)
              : inline_first_->send(outbox_, server_, chunk, inline_max);
}

std::vector<Candidate> Candidates::read_inline(Asked<Place> asked) {
  std::vector<Candidate> result;
  loaded_.emplace(asked.rows.rows());
  result.reserve(static_cast<std::size_t>(loaded_->size()));
  while (loaded_->next()) {
    Candidate candidate = read(*loaded_);
    candidate.version = loaded_->transaction(kMessageColumns - 1);
    const bool values = !loaded_->boolean(loaded_->columns() - 1);
    const bool whole = values && !candidate.holder && !candidate.noted;
    if (whole && candidate.payload_size <= asked.inline_max) candidate.loaded = loaded_->row();
    result.push_back(std::move(candidate));
  }
  return result;
}

Ahead Candidates::ask_due(std::size_t chunk) {
  const auto& from = due_.position();
  return from ? failed_from_.send(outbox_, server_, chunk, from->due)
              : failed_first_.send(outbox_, server_, chunk);
}

Ahead Candidates::ask_beside(const char* state) {
  const std::size_t limit = std::max(kBudgetMin, kBudgetFactor * wanted_);
  return beside_.send(outbox_, server_, limit, state);
}

void Candidates::start_over() {
  fresh_ = {};
  start_over_due();
}

void Candidates::walk_fresh(const Visitor& visitor) {
  const std::size_t budget = std::max(kBudgetMin, kBudgetFactor * wanted_);
  std::size_t chunk = first_chunk();
  for (std::size_t seen = 0; seen < budget && !visitor.enough();) {
    std::vector<Candidate> found;
    {
      const Timer<Place> timer(fresh_);
      auto asked = take(asked_fresh_, fresh_.position(), chunk);
      if (asked && asked->inline_max > 0) {
        found = read_inline(std::move(*asked));
      } else {
        found = read_all(asked ? asked->rows.rows() : ask_fresh(chunk).rows());
      }
    }
    const bool last = found.size() < chunk;
    seen += found.size();
    chunk = std::min(chunk * 2, kChunkMax);
    std::erase_if(found, [&](const Candidate& one) { return fresh_.is_read(one.place); });
    visitor.prepare(found);
    for (const Candidate& candidate : found) {
      if (visitor.enough()) return;
      const bool elsewhere = candidate.side_state && candidate.side_state != state::kPending;
      const Step step = elsewhere ? Step::mine : visitor.visit(candidate);
      if (step == Step::halt) return;
      if (step == Step::passed) fresh_.pass(candidate.place);
      fresh_.advance(candidate.place);
    }
    if (!last) continue;
    fresh_.reach_end();
    fresh_seen_ = true;
    return;
  }
}

void Candidates::walk_due(const Visitor& visitor) {
  walk_beside(visitor);
  walk_odd(visitor);
  walk_index(visitor);
}

void Candidates::walk_index(const Visitor& visitor) {
  if (!sql_.table().holds_failed()) {
    due_seen_ = true;
    return;
  }
  const std::size_t budget = std::max(kBudgetMin, kBudgetFactor * wanted_);
  std::size_t chunk = first_chunk();
  for (std::size_t seen = 0; seen < budget && !visitor.enough();) {
    std::vector<Candidate> found;
    {
      const Timer<DuePlace> timer(due_);
      auto asked = take(asked_due_, due_.position(), chunk);
      found = read_all(asked ? asked->rows.rows() : ask_due(chunk).rows());
    }
    const bool last = found.size() < chunk;
    seen += found.size();
    const auto place = [](const Candidate& one) {
      return DuePlace{one.due.value_or(ServerTime::min()), one.place};
    };
    const auto read_before = found.size();
    std::erase_if(found, [&](const Candidate& one) { return due_.is_read(place(one)); });
    // So many are due at one time that a chunk shows nothing new: a larger one does.
    const bool stuck = found.empty() && read_before > 0 && !last;
    chunk = stuck ? chunk * 2 : std::min(chunk * 2, std::max(chunk, kChunkMax));
    visitor.prepare(found);
    for (const Candidate& candidate : found) {
      if (visitor.enough()) return;
      const Step step = candidate.side_state ? Step::mine : visitor.visit(candidate);
      if (step == Step::halt) return;
      if (step == Step::passed) due_.pass(place(candidate));
      due_.advance(place(candidate));
    }
    if (!last) continue;
    due_.reach_end();
    due_seen_ = true;
    return;
  }
}

// False if the visitor wants to stop.
bool Candidates::visit_all(Rows rows, const Visitor& visitor) {
  const std::vector<Candidate> found = read_all(std::move(rows));
  visitor.prepare(found);
  for (const Candidate& candidate : found) {
    if (visitor.enough()) return true;
    if (visitor.visit(candidate) == Step::halt) return false;
  }
  return true;
}

// Rows whose state is kept beside them, because the outbox's own can't be written.
void Candidates::walk_beside(const Visitor& visitor) {
  for (const char* name : kBeside) {
    if (visitor.enough()) return;
    const auto asked = asked_beside_.extract(name);
    std::vector<Candidate> found =
        read_all(asked ? asked.mapped().rows() : ask_beside(name).rows());
    std::erase_if(found, [this](const Candidate& one) {
      return one.due && *one.due > server_ && !is_absurd(one);
    });
    visitor.prepare(found);
    for (const Candidate& candidate : found) {
      if (visitor.enough() || visitor.visit(candidate) == Step::halt) return;
    }
  }
}

// Once a second: failed rows without a due time, or with one that no delay explains.
void Candidates::walk_odd(const Visitor& visitor) {
  if (!sql_.table().holds_failed()) return;
  if (odd_looked_at_ && now_ - *odd_looked_at_ < kOddInterval) return;
  odd_looked_at_ = now_;
  std::vector<Candidate> found = read_all(dueless_.rows(outbox_, server_, kOddMax));
  std::vector<Candidate> far = read_all(farthest_.rows(outbox_, server_, kOddMax));
  std::erase_if(far, [this](const Candidate& one) { return !is_absurd(one); });
  found.insert(found.end(), far.begin(), far.end());
  std::erase_if(found, [](const Candidate& one) { return one.side_state.has_value(); });
  visitor.prepare(found);
  for (const Candidate& candidate : found) {
    if (visitor.enough()) return;
    if (visitor.visit(candidate) != Step::halt) continue;
    odd_looked_at_.reset();
    return;
  }
}

void Candidates::walk_waiting(std::int64_t epoch_max, const Visitor& visitor) {
  if (visitor.enough()) return;
  const auto limit = static_cast<std::int64_t>(std::max(kBudgetMin, kBudgetFactor * wanted_));
  visit_all(waiting_.rows(outbox_, server_, limit, epoch_max), visitor);
}

std::optional<Candidate> Candidates::find(const std::string& key) {
  Rows rows = one_.rows(outbox_, server_, key);
  return rows.next() ? std::optional(read(rows)) : std::nullopt;
}

std::optional<ServerTime> Candidates::next_due() {
  Rows rows = next_due_.rows(outbox_, server_);
  return rows.next() ? rows.maybe_time(0) : std::nullopt;
}

bool Candidates::is_absurd(const Candidate& candidate) const {
  if (!candidate.due) return false;
  const auto ahead = *candidate.due - server_;
  if (!candidate.last_delay_ms) return ahead > kDelayMax;
  return ahead > std::chrono::milliseconds(*candidate.last_delay_ms) + kClockSlack;
}

}  // namespace outbox::postgres
