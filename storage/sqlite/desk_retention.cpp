#include "storage/sqlite/desk_retention.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <random>
#include <utility>
#include <variant>

#include "storage/sqlite/adoption.h"
#include "storage/sqlite/identifiers.h"

namespace outbox::sqlite {
namespace {

using HoldClock = std::chrono::steady_clock;

constexpr std::size_t kLookedAtOnce = 1000;  // rows in one snapshot
constexpr auto kThoroughInterval = std::chrono::hours{24};
constexpr auto kBusyRestMin = std::chrono::milliseconds{5};
constexpr std::uint64_t kBusyRestSpread = 10'000;  // microseconds
constexpr int kLookRest = 4;                       // reading takes at most a fifth of the time
constexpr int kEventIdColumn = 4;
constexpr const char* kGone = "gone";

// A trigger or a constraint of the application's.
bool refuses(const SQLite::Exception& error) {
  return (error.getErrorCode() & 0xff) == SQLITE_CONSTRAINT;
}

std::string state_sql(const Sql& sql) {
  return fmt::format("coalesce(r.state, {}, '')", sql.state_name());
}

// When a row was delivered; failing that, when its event occurred.
std::string processed_on_sql(const Sql& sql) {
  const Columns& c = sql.mapping().columns;
  return fmt::format("coalesce(r.processed_on, {}, {})", sql.value(c.processed_on),
                     sql.value(c.occurred_on));
}

std::string unkeyed_sql(const Sql& sql) {
  return sql.value(sql.mapping().columns.ordering_key) + " IS NULL";
}

std::string walk_sql(const Sql& sql) {
  return fmt::format(
      "SELECT {0}, {1}, {2}, CASE {2} WHEN '{3}' THEN {4} END FROM {5} AS o {6} "
      "WHERE {0} > ?2 AND {7} ORDER BY {0} LIMIT ?3",
      sql.order(), sql.row_key(), state_sql(sql), state::kProcessed, processed_on_sql(sql),
      sql.table(), sql.side_row(), sql.has_key());
}

// When a row was given up: as the audit has it; failing that, when it was last sent, or occurred.
std::string dead_sql(const Sql& sql, bool keyed_stay) {
  const Columns& c = sql.mapping().columns;
  const std::string died_on = fmt::format(
      "coalesce((SELECT max(a.at) FROM outbox_relay_audit AS a WHERE a.outbox = ?1 "
      "AND a.row_key = {} AND a.action = 'dead_letter'), r.last_attempt_at, {})",
      sql.key_beside(), sql.value(c.occurred_on));
  const std::string columns = fmt::format("{}, {}, '{}', {}, {}", sql.order(), sql.row_key(),
                                          state::kDeadLettered, died_on, sql.column(c.id));
  const std::string filter = fmt::format("{} > ?2 AND {}{}", sql.order(), sql.has_key(),
                                         keyed_stay ? " AND " + unkeyed_sql(sql) : "");
  return sql.select_dead(columns, filter) + " ORDER BY 1 LIMIT ?3";
}

// The DELETE itself carries the state: whatever was thought of the row, nothing else goes.
std::string remove_row_sql(const Sql& sql, const char* state) {
  return fmt::format("DELETE FROM {} AS o WHERE {} = ?2 AND {} = ?3 AND {} = '{}'", sql.table(),
                     sql.order(), sql.row_key(), sql.whole_state(), state);
}

std::string log_sql(const char* table) {
  // Not by its index, which is not in the order of time.
  return fmt::format(
      "SELECT rowid, 0, '', at FROM {} NOT INDEXED WHERE outbox = ?1 AND rowid > ?2 "
      "ORDER BY rowid LIMIT ?3",
      table);
}

std::string remove_log_sql(const char* table) {
  return fmt::format("DELETE FROM {} WHERE rowid = ?2 AND outbox = ?1", table);
}

std::string is_orphan_sql(const Sql& sql) {
  return fmt::format(
      "NOT EXISTS (SELECT 1 FROM {} AS o WHERE {} = r.row_key) "
      "AND NOT EXISTS (SELECT 1 FROM outbox_relay_leases AS l "
      "WHERE l.outbox = r.outbox AND l.row_key = r.row_key)",
      sql.table(), sql.row_key());
}

std::string notes_sql(const Sql& sql) {
  return fmt::format(
      "SELECT r.row_key, r.row_key, CASE WHEN {} THEN '{}' ELSE '' END, '' "
      "FROM outbox_relay_rows AS r WHERE r.outbox = ?1 AND r.row_key > ?2 "
      "ORDER BY r.row_key LIMIT ?3",
      is_orphan_sql(sql), kGone);
}

std::string remove_notes_sql(const Sql& sql) {
  return fmt::format(
      "DELETE FROM outbox_relay_rows AS r WHERE r.outbox = ?1 AND r.row_key = ?2 AND {}",
      is_orphan_sql(sql));
}

}  // namespace

// A row that was looked at, of the outbox or of a table beside it.
struct Cleaner::Seen {
  Value place;  // in the order of that table
  Value key;
  std::string state;
  std::optional<WallTime> since;  // when it was decided or written, as far as can be told
  std::string event_id;
};

struct Cleaner::Work {
  Work(const std::string& path, const Mapping& mapping, const Clocks& clocks)
      : desk(path, mapping, clocks, std::chrono::milliseconds{0}, Desk::Tables::needed),
        schema_version(desk.connection.schema_version()),
        data_version(desk.connection.data_version()) {
    require_adopted(desk.connection, desk.sql.mapping());
    // A deletion that a power cut undoes is made again. Waiting for the disk would only keep the
    // write lock for longer.
    desk.connection.database().exec("PRAGMA synchronous=NORMAL");
  }

  bool usable() {
    return desk.connection.same_file() && desk.connection.schema_version() == schema_version;
  }

  // Whether another connection has committed since the last time this was asked.
  bool others_wrote() {
    const std::int64_t version = desk.connection.data_version();
    return std::exchange(data_version, version) != version;
  }

  std::vector<Seen> look(const Value& after);

  Desk desk;
  std::int64_t schema_version;
  std::int64_t data_version;
  std::optional<Query> look_at;
  std::optional<Query> remove;
  std::deque<Seen> over;  // found by the last look, not yet removed
  bool at_end = false;    // of the stage, once those are removed
};

std::vector<Cleaner::Seen> Cleaner::Work::look(const Value& after) {
  std::vector<Seen> seen;
  std::vector<std::string> odd;  // times in another form than ours, read once the look is over
  {
    auto rows = look_at->rows(desk.outbox, after, kLookedAtOnce);
    while (rows.next()) {
      Seen& one = seen.emplace_back();
      one.place = rows.value(0).value_or(Value{});
      one.key = rows.value(1).value_or(Value{});
      one.state = rows.text(2);
      const std::string since = rows.text(3);
      if (!since.empty()) one.since = parse_time(since);
      odd.push_back(one.since ? std::string{} : since);
      if (rows.size() > kEventIdColumn)
        one.event_id = rendered_id(rows, kEventIdColumn, desk.sql.mapping().guids);
    }
  }
  for (std::size_t index = 0; index < seen.size(); ++index) {
    if (!odd[index].empty()) seen[index].since = desk.times.read(odd[index]);
  }
  return seen;
}

Cleaner::Cleaner(std::string path, Mapping mapping, const Clocks& clocks, std::uint64_t wal_limit)
    : path_(std::move(path)),
      mapping_(std::move(mapping)),
      clocks_(clocks),
      wal_limit_(wal_limit),
      random_(random_seed()) {}

Cleaner::~Cleaner() = default;

CleanStep Cleaner::step(const CleanRequest& request) {
  try {
    if (work_ && !work_->usable()) work_.reset();
    if (!work_) begin_pass();
    while (stage_ != Stage::done && !term(request)) end_stage();
    if (stage_ != Stage::done) return run_stage(request);
  } catch (const Busy&) {
    return busy();
  } catch (const SQLite::Exception& error) {
    if (is_busy(error)) return busy();
    work_.reset();
    throw;
  } catch (...) {
    work_.reset();
    throw;
  }
  work_.reset();
  if (thorough_) thorough_at_ = clocks_.boot->now();
  CleanStep step;
  step.done = true;
  return step;
}

CleanStep Cleaner::busy() {
  CleanStep step;
  step.busy = true;
  step.rest = kBusyRestMin + std::chrono::microseconds(random_.below(kBusyRestSpread));
  return step;
}

void Cleaner::begin_pass() {
  work_ = std::make_unique<Work>(path_, mapping_, clocks_);
  const auto file = identity_of(path_);
  if (file != walked_file_) thorough_at_.reset();
  walked_file_ = file;
  thorough_ = !thorough_at_ || clocks_.boot->now() - *thorough_at_ >= kThoroughInterval;
  begin_stage(Stage::processed);
}

void Cleaner::begin_stage(Stage stage) {
  stage_ = stage;
  position_ = Value{INT64_MIN};
  work_->look_at.reset();
  work_->remove.reset();
  work_->over.clear();
  work_->at_end = false;
  if (stage != Stage::processed) return;
  if (!thorough_) position_ = Value{walk_start_};
  first_kept_.reset();
}

void Cleaner::end_stage() {
  // With nothing kept, from the start: a table's numbers may begin anew when it is empty.
  if (stage_ == Stage::processed) walk_start_ = first_kept_ ? *first_kept_ - 1 : INT64_MIN;
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

// The statements of a stage take the same values: ?1 the outbox, ?2 the place, and so on.
void Cleaner::prepare(const CleanRequest& request) {
  if (work_->look_at) return;
  const Sql& sql = work_->desk.sql;
  const auto use = [this](const std::string& look, const std::string& remove) {
    SQLite::Database& database = work_->desk.connection.database();
    work_->look_at.emplace(database, look);
    work_->remove.emplace(database, remove);
  };
  switch (stage_) {
    case Stage::processed:
      return use(walk_sql(sql), remove_row_sql(sql, state::kProcessed));
    case Stage::dead_lettered:
      return use(dead_sql(sql, request.keyed_dead_stay),
                 remove_row_sql(sql, state::kDeadLettered) +
                     (request.keyed_dead_stay ? " AND " + unkeyed_sql(sql) : ""));
    case Stage::attempts:
      return use(log_sql("outbox_relay_attempts"), remove_log_sql("outbox_relay_attempts"));
    case Stage::audit:
      return use(log_sql("outbox_relay_audit"), remove_log_sql("outbox_relay_audit"));
    case Stage::orphans:
      return use(notes_sql(sql), remove_notes_sql(sql));
    case Stage::done:
      return;
  }
}

bool Cleaner::is_over(const Seen& seen, WallTime before) const {
  switch (stage_) {
    case Stage::processed:
      return seen.state == state::kProcessed && seen.since && *seen.since <= before;
    case Stage::dead_lettered:
    case Stage::attempts:
    case Stage::audit:
      return seen.since && *seen.since <= before;
    case Stage::orphans:
      return seen.state == kGone;
    case Stage::done:
      return false;
  }
  return false;
}

// Removes some of what the last look found; looks at the next rows when that is done.
CleanStep Cleaner::run_stage(const CleanRequest& request) {
  prepare(request);
  CleanStep step;
  const WallTime before =
      clocks_.wall() - std::chrono::floor<std::chrono::milliseconds>(*term(request));
  if (work_->over.empty()) {
    const auto begun = HoldClock::now();
    look(before);
    step.rest = kLookRest * (HoldClock::now() - begun);
  } else {
    remove(pace_.limit(request.chunk), before, step);
  }
  if (work_->over.empty() && work_->at_end) end_stage();
  return step;
}

void Cleaner::look(WallTime before) {
  std::vector<Seen> seen = work_->look(position_);
  bool too_young = false;
  for (Seen& one : seen) {
    position_ = one.place;
    if (is_over(one, before)) {
      work_->over.push_back(std::move(one));
    } else {
      too_young = too_young || one.since.has_value();
      note_kept(one);
    }
  }
  // Dead letters die in another order than they stand in.
  const bool ordered = stage_ != Stage::dead_lettered && stage_ != Stage::orphans;
  const bool only_young = work_->over.empty() && too_young && ordered && !thorough_;
  work_->at_end = only_young || seen.size() < kLookedAtOnce;
}

// A row that may be over its time later.
void Cleaner::note_kept(const Seen& seen) {
  if (stage_ != Stage::processed) return;
  const bool may_go = seen.state == state::kProcessed || seen.state == state::kPending ||
                      seen.state == state::kFailed;
  if (!may_go) return;
  const std::int64_t place = std::get<std::int64_t>(seen.place);
  first_kept_ = std::min(first_kept_.value_or(place), place);
}

// One transaction.
void Cleaner::remove(std::size_t most, WallTime before, CleanStep& step) {
  std::deque<Seen>& over = work_->over;
  const std::size_t limit = std::min(over.size(), most);
  std::size_t tried = 0;
  std::uint64_t removed = 0;
  Transaction transaction(work_->desk.connection, Transaction::Kind::write);
  const auto begun = HoldClock::now();
  while (tried < limit && HoldClock::now() - begun < CleanPace::kWorkMax) {
    // The term may have become a longer one since the row was looked at.
    if (is_over(over[tried], before)) {
      removed += remove_one(over[tried]) ? 1 : 0;
    } else {
      note_kept(over[tried]);
    }
    ++tried;
  }
  transaction.commit();
  step.held = HoldClock::now() - begun;
  over.erase(over.begin(), over.begin() + static_cast<std::ptrdiff_t>(tried));
  count_of(stage_, step) += removed;
  pace_.held(tried, step.held);
  step.rest = CleanPace::rest(step.held, work_->others_wrote());
  work_->desk.connection.checkpoint_if_over(wal_limit_, clocks_.boot->now());
}

// A row that refuses to go, for a trigger of the application's, stays.
bool Cleaner::remove_one(const Seen& seen) {
  Desk& desk = work_->desk;
  try {
    switch (stage_) {
      case Stage::processed:
      case Stage::dead_lettered:
        if (work_->remove->run(desk.outbox, seen.place, seen.key) == 0) return false;
        desk.side_rows.erase(seen.key);
        break;
      case Stage::attempts:
      case Stage::audit:
      case Stage::orphans:
        return work_->remove->run(desk.outbox, seen.place) > 0;
      case Stage::done:
        return false;
    }
  } catch (const SQLite::Exception& error) {
    if (!desk.connection.in_transaction() || !refuses(error)) throw;
    return false;
  }
  if (stage_ == Stage::dead_lettered) {
    desk.audit({"expire", "retention.deadLettered", seen.key, seen.event_id});
  }
  return true;
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

}  // namespace outbox::sqlite
