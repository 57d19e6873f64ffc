#include "storage/postgres/desk_retention.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "storage/mapping/states.h"
#include "storage/postgres/adoption.h"
#include "storage/postgres/savepoint.h"

namespace outbox::postgres {
namespace {

constexpr std::int64_t kLookedAtOnce = 1000;
constexpr int kLooksMax = 20;  // on one connection, which costs more than a look
constexpr std::size_t kRemovedAtOnce = 5000;
constexpr auto kThoroughInterval = std::chrono::hours{24};
constexpr int kRest = 2;           // a clean-up works at most a third of the time
constexpr int kRestAfterLook = 9;  // and a tenth while it finds nothing, since nothing waits for it
constexpr auto kRestMin = std::chrono::milliseconds{1};
constexpr auto kBusyRest = std::chrono::milliseconds{20};

std::int64_t microseconds(Duration time) {
  return std::chrono::duration_cast<std::chrono::microseconds>(time).count();
}

// SQL: the time before which things are over, $2 being a number of microseconds.
std::string before_sql(const std::string& now) {
  return fmt::format("({} - $2 * interval '1 microsecond')", now);
}

// When a row was delivered; failing that, when its event occurred.
std::string processed_on_sql(const Sql& sql) {
  const Columns& c = sql.mapping().columns;
  return fmt::format("coalesce(r.processed_on, {}, {})", sql.time(c.processed_on),
                     sql.time(c.occurred_on));
}

// When a row was given up: as the audit has it; failing that, when it was last sent, or occurred.
std::string died_on_sql(const Sql& sql) {
  return fmt::format(
      "coalesce((SELECT max(a.at) FROM {} AS a WHERE a.outbox = $1 AND a.row_key = {} "
      "AND a.action = 'dead_letter'), r.last_attempt_at, {})",
      sql.audit(), sql.key_text(), sql.time(sql.mapping().columns.occurred_on));
}

std::string unkeyed_sql(const Sql& sql) {
  const std::string& key = sql.mapping().columns.ordering_key;
  return key.empty() ? "true" : sql.column(key) + " IS NULL";
}

// The next $3 rows behind $4, $5 and $6.
std::string walk_sql(const Sql& sql, const std::string& now, bool onwards) {
  return fmt::format("SELECT {}, {}, {}, {}, {} <= {} FROM {} {} WHERE {} ORDER BY {} LIMIT $3",
                     sql.place(), sql.tie(), sql.key_text(), sql.whole_state(),
                     processed_on_sql(sql), before_sql(now),
                     onwards ? sql.rows_from("$4", "$5") : sql.from(), sql.side_row(),
                     onwards ? sql.key_text() + " <> $6" : "true", sql.order());
}

// The DELETE itself carries the state: whatever was thought of the rows, nothing else goes. What is
// noted beside them goes with them.
std::string remove_rows_sql(const Desk& desk, const char* state, const std::string& since,
                            const std::string& also) {
  const Sql& sql = desk.sql;
  const bool dead = std::string(state) == state::kDeadLettered;
  const std::string audit =
      dead ? fmt::format(
                 ", told AS (INSERT INTO {} (outbox, row_key, event_id, at, action, reason) "
                 "SELECT $1, k, e, {}, 'expire', 'retention.deadLettered' FROM gone)",
                 sql.audit(), desk.now)
           : "";
  const std::string lock = desk.locked().empty() ? "" : desk.locked() + " SKIP LOCKED";
  // Locked first: what another changes meanwhile is looked at again.
  return fmt::format(
      "WITH over AS MATERIALIZED (SELECT {0} AS key FROM {1} {2} WHERE {0} = ANY({3}) "
      "AND {4} = '{5}' AND {6} <= {7} AND {8}{13}), "
      "gone AS (DELETE FROM {1} USING over WHERE {0} = over.key RETURNING {9} AS k, {10} AS e), "
      "beside AS (DELETE FROM {11} AS s USING gone WHERE s.outbox = $1 AND s.row_key = gone.k){12} "
      "SELECT count(*) FROM gone",
      sql.row_key(), sql.from(), sql.side_row(), sql.as_keys("$3"), sql.whole_state(), state, since,
      before_sql(desk.now), also, sql.key_text(), desk.readable(sql.mapping().columns.id),
      sql.rows(), audit, lock);
}

std::string is_orphan_sql(const Sql& sql) {
  return fmt::format(
      "NOT EXISTS (SELECT 1 FROM {} WHERE {} = {}) AND NOT EXISTS (SELECT 1 FROM {} AS l "
      "WHERE l.outbox = r.outbox AND l.row_key = r.row_key)",
      sql.from(), sql.row_key(), sql.as_key("r.row_key"), sql.leases());
}

}  // namespace

Cleaner::Cleaner(StoreSettings settings, std::string now)
    : settings_(std::move(settings)), now_(std::move(now)) {}

Cleaner::~Cleaner() = default;

CleanStep Cleaner::step(const CleanRequest& request) {
  CleanStep step;
  try {
    step = take_step(request);
  } catch (const Busy&) {
    step.busy = true;
    step.rest = kBusyRest;
  } catch (...) {
    desk_.reset();
    under_way_ = false;
    throw;
  }
  desk_.reset();
  return step;
}

CleanStep Cleaner::take_step(const CleanRequest& request) {
  const auto begun = PaceClock::now();
  if (!under_way_) begin_pass();
  while (stage_ != Stage::done && !term(request)) end_stage();
  if (stage_ != Stage::done) {
    desk_ = std::make_unique<Desk>(settings_, now_);
    require_adopted(desk_->connection, desk_->sql);
    desk_->connection.begin_work();
    CleanStep step = run_stage(request);
    const bool idle = over_.empty() && step.removed() == 0;
    step.rest =
        std::max<Duration>((idle ? kRestAfterLook : kRest) * (PaceClock::now() - begun), kRestMin);
    return step;
  }
  under_way_ = false;
  if (thorough_) thorough_at_ = PaceClock::now();
  CleanStep step;
  step.done = true;
  return step;
}

void Cleaner::begin_pass() {
  under_way_ = true;
  thorough_ = !thorough_at_ || PaceClock::now() - *thorough_at_ >= kThoroughInterval;
  begin_stage(Stage::processed);
}

void Cleaner::begin_stage(Stage stage) {
  stage_ = stage;
  position_.reset();
  over_.clear();
  at_end_ = false;
  if (stage != Stage::processed) return;
  if (!thorough_) position_ = walk_start_;
  before_kept_ = position_;
  kept_ = false;
}

void Cleaner::end_stage() {
  // With nothing kept, from the start: a table's numbers may begin anew when it is empty.
  if (stage_ == Stage::processed) walk_start_ = kept_ ? before_kept_ : std::nullopt;
  begin_stage(static_cast<Stage>(static_cast<int>(stage_) + 1));
}

// After what time the rows of this stage go; nothing if they stay.
std::optional<Duration> Cleaner::term(const CleanRequest& request) const {
  switch (stage_) {
    case Stage::processed:
      return request.processed;
    case Stage::dead_lettered:
      return request.dead_lettered;
    case Stage::attempts:
    case Stage::audit:
      return request.attempts;
    case Stage::orphans:
      return thorough_ ? std::optional(Duration{0}) : std::nullopt;
    case Stage::done:
      return std::nullopt;
  }
  return std::nullopt;
}

// Removes some of what the last look found; looks at the next rows when that is done.
CleanStep Cleaner::run_stage(const CleanRequest& request) {
  CleanStep step;
  const auto begun = PaceClock::now();
  const bool is_log = stage_ == Stage::attempts || stage_ == Stage::audit;
  if (over_.empty() && !is_log) {
    for (int looks = 0; looks < kLooksMax && over_.empty() && !at_end_; ++looks) look(request);
  } else {
    count_of(stage_, step) += remove(request);
    step.held = PaceClock::now() - begun;
  }
  if (stage_ == Stage::dead_lettered && over_.empty() && removed_ == 0) at_end_ = true;
  if (over_.empty() && at_end_) end_stage();
  return step;
}

void Cleaner::look(const CleanRequest& request) {
  Transaction transaction(desk_->connection, Transaction::Kind::read);
  if (stage_ == Stage::processed) look_at_rows(*term(request));
  if (stage_ == Stage::dead_lettered) look_at_dead(request);
  if (stage_ == Stage::orphans) look_at_notes();
  transaction.commit();
}

void Cleaner::look_at_rows(Duration term) {
  const Position from = position_.value_or(Position{});
  Rows rows = ask(desk_->connection, walk_sql(desk_->sql, now_, position_.has_value()),
                  desk_->outbox, microseconds(term), kLookedAtOnce, from.place, from.tie, from.key);
  bool too_young = false;
  while (rows.next()) {
    const std::string state = rows.text(3);
    const bool processed = state == state::kProcessed;
    if (processed && rows.boolean(4)) {
      over_.push_back(rows.text(2));
    } else {
      too_young = too_young || (processed && !rows.null(4));
      // A row that may be over its time later: the next pass begins before it.
      kept_ = kept_ || processed || state == state::kPending || state == state::kFailed;
    }
    position_ = Position{rows.integer(0), rows.text(1), rows.text(2)};
    if (!kept_) before_kept_ = position_;
  }
  const bool only_young = over_.empty() && too_young && !thorough_;
  at_end_ = only_young || rows.size() < kLookedAtOnce;
}

// Few, by their own index; in what order they died is not known.
void Cleaner::look_at_dead(const CleanRequest& request) {
  const Sql& sql = desk_->sql;
  std::string filter = fmt::format("{} <= {}", died_on_sql(sql), before_sql(now_));
  if (request.keyed_dead_stay) filter += " AND " + unkeyed_sql(sql);
  Rows rows =
      ask(desk_->connection, desk_->select_dead(sql.key_text(), filter, "LIMIT $3") + " LIMIT $3",
          desk_->outbox, microseconds(*request.dead_lettered), kLookedAtOnce);
  while (rows.next()) over_.push_back(rows.text(0));
  // Those that refuse to go are found again: they must not keep the stage from its end.
  at_end_ = rows.size() < kLookedAtOnce;
  removed_ = 0;
}

void Cleaner::look_at_notes() {
  const std::string from = position_ ? position_->key : "";
  Rows rows = ask(desk_->connection,
                  fmt::format("SELECT r.row_key, {} FROM {} AS r WHERE r.outbox = $1 "
                              "AND r.row_key > $2 ORDER BY r.row_key LIMIT $3",
                              is_orphan_sql(desk_->sql), desk_->sql.rows()),
                  desk_->outbox, from, kLookedAtOnce);
  while (rows.next()) {
    position_ = Position{0, {}, rows.text(0)};
    if (rows.boolean(1)) over_.push_back(rows.text(0));
  }
  at_end_ = rows.size() < kLookedAtOnce;
}

// One transaction.
std::uint64_t Cleaner::remove(const CleanRequest& request) {
  if (stage_ == Stage::attempts) return remove_log(desk_->sql.attempts(), request);
  if (stage_ == Stage::audit) return remove_log(desk_->sql.audit(), request);
  const std::size_t most =
      std::min({over_.size(), std::max<std::size_t>(request.chunk, 1), kRemovedAtOnce});
  const auto end = over_.begin() + static_cast<std::ptrdiff_t>(most);
  const std::vector<std::string> keys(over_.begin(), end);
  const std::uint64_t removed =
      stage_ == Stage::orphans ? remove_notes(keys) : remove_rows(keys, request);
  over_.erase(over_.begin(), over_.begin() + static_cast<std::ptrdiff_t>(most));
  removed_ += removed;
  return removed;
}

std::uint64_t Cleaner::remove_rows(const std::vector<std::string>& keys,
                                   const CleanRequest& request) {
  Connection& connection = desk_->connection;
  const Sql& sql = desk_->sql;
  const bool dead = stage_ == Stage::dead_lettered;
  const bool only_unkeyed = dead && request.keyed_dead_stay;
  Query query(connection, remove_rows_sql(*desk_, dead ? state::kDeadLettered : state::kProcessed,
                                          dead ? died_on_sql(sql) : processed_on_sql(sql),
                                          only_unkeyed ? unkeyed_sql(sql) : "true"));
  const std::int64_t age = microseconds(*term(request));
  std::uint64_t removed = 0;
  Transaction transaction(connection, Transaction::Kind::write);
  const auto take = [&](const std::vector<std::string>& some) {
    std::string refusal;
    return carefully(
        connection,
        [&] {
          Rows rows = query.rows(desk_->outbox, age, some);
          removed += rows.next() ? static_cast<std::uint64_t>(rows.integer(0)) : 0;
          return true;
        },
        refusal);
  };
  // A row that refuses to go, for a trigger of the application's, stays: alone.
  if (!take(keys)) {
    for (const std::string& key : keys) take({key});
  }
  transaction.commit();
  return removed;
}

std::uint64_t Cleaner::remove_notes(const std::vector<std::string>& keys) {
  Transaction transaction(desk_->connection, Transaction::Kind::write);
  const Rows rows = ask(desk_->connection,
                        fmt::format("DELETE FROM {} AS r WHERE r.outbox = $1 AND r.row_key = "
                                    "ANY($2) AND {}",
                                    desk_->sql.rows(), is_orphan_sql(desk_->sql)),
                        desk_->outbox, keys);
  const auto removed = static_cast<std::uint64_t>(rows.changed());
  transaction.commit();
  return removed;
}

// No index is in the order of time: entries stand in it as they were written, and the old ones are
// at the beginning of the table.
std::uint64_t Cleaner::remove_log(const std::string& table, const CleanRequest& request) {
  const auto most = std::min(std::max<std::size_t>(request.chunk, 1), kRemovedAtOnce);
  Transaction transaction(desk_->connection, Transaction::Kind::write);
  desk_->connection.command("SET LOCAL enable_seqscan = on");
  const Rows rows = ask(desk_->connection,
                        fmt::format("DELETE FROM {0} WHERE ctid = ANY(ARRAY(SELECT ctid FROM {0} "
                                    "WHERE outbox = $1 AND at <= {1} LIMIT $3)) "
                                    "AND outbox = $1",
                                    table, before_sql(now_)),
                        desk_->outbox, microseconds(*term(request)), most);
  const auto removed = static_cast<std::uint64_t>(rows.changed());
  transaction.commit();
  at_end_ = removed < most;
  return removed;
}

std::uint64_t& Cleaner::count_of(Stage stage, CleanStep& step) {
  switch (stage) {
    case Stage::processed:
      return step.processed;
    case Stage::dead_lettered:
      return step.dead_lettered;
    case Stage::attempts:
      return step.attempts;
    case Stage::audit:
      return step.audit;
    case Stage::orphans:
    case Stage::done:
      return step.orphans;
  }
  return step.orphans;
}

}  // namespace outbox::postgres
