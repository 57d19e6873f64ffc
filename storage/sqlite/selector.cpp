#include "storage/sqlite/selector.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "storage/sqlite/side_rows.h"

namespace outbox::sqlite {
namespace {

constexpr std::size_t kBudgetFactor = 10;
constexpr std::size_t kBudgetMin = 1000;
constexpr std::int64_t kTakeoversBeforeSolitude = 2;
constexpr std::int64_t kUnindexedMax = 2000;  // rows

// The rows of key ?2 between two places.
std::string key_sql(const Sql& sql, const std::string& from, const std::string& where) {
  return fmt::format(
      "SELECT {0}, coalesce(r.state, {1}), l.incarnation FROM {2} {3} "
      "WHERE {4} = ?2 AND {5} AND {6} > ?3 AND {6} < ?4 ORDER BY {6}",
      sql.order(), sql.state_name(), from, sql.beside(),
      sql.value(sql.mapping().columns.ordering_key), where, sql.order());
}

}  // namespace

Selector::Selector(Connection& connection, const Sql& sql, std::string outbox)
    : sql_(sql),
      outbox_(std::move(outbox)),
      candidates_(connection, sql, outbox_),
      sizes_(connection, sql.mapping().table, sql.mapping().columns.payload),
      times_(connection, sql.mapping().times),
      open_of_key_(connection.database(), key_sql(sql, sql.from_open_key(), sql.is_open())),
      dead_of_key_(connection.database(), key_sql(sql, sql.from_dead_key(), sql.is_dead())),
      count_(sql.has_key_index() ? std::optional<Query>()
                                 : std::optional<Query>(std::in_place, connection.database(),
                                                        sql.count(kUnindexedMax + 1))) {}

Selection Selector::select(const LeaseRequest& request, const Scene& scene) {
  request_ = request;
  scene_ = scene;
  bytes_ = 0;
  stopped_ = false;
  selection_ = {};
  picked_.clear();
  free_up_to_.clear();
  const std::size_t budget = std::max(kBudgetMin, kBudgetFactor * scene.limit);
  if (candidates_.begin(scene.now, scene.wall, scene.changed, scene.look_only, budget)) {
    blocked_.clear();
  }
  if (!take_solitary()) choose();
  candidates_.end();
  sizes_.close();
  if (stopped_ || !candidates_.exhausted()) selection_.more = true;
  selection_.next_due = candidates_.next_due();
  std::sort(selection_.rows.begin(), selection_.rows.end(),
            [](const Picked& one, const Picked& other) { return one.place < other.place; });
  return std::move(selection_);
}

// Each row's predecessors would be looked for in the whole table, under the write lock.
std::optional<std::string> Selector::obstacle(const LeaseRequest& request) {
  const bool keyed =
      request.ordering == Ordering::key && !sql_.mapping().columns.ordering_key.empty();
  if (!keyed || !count_) return std::nullopt;
  auto rows = count_->rows();
  if (!rows.next() || rows.integer(0) <= kUnindexedMax) return std::nullopt;
  return fmt::format(
      "the table {} is too large for relay.ordering: key without an index on {}: {} (or set "
      "relay.ordering: none)",
      outbox_, sql_.mapping().columns.ordering_key, sql_.create_key_index());
}

void Selector::start_over() {
  blocked_.clear();
  candidates_.start_over();
}

void Selector::settled(const std::vector<std::int64_t>& places) {
  for (const std::int64_t place : places) unblock(place);
}

void Selector::released(const std::vector<Value>& keys) {
  for (const Value& key : keys) {
    const auto candidate = candidates_.find(key);
    if (!candidate) continue;
    unblock(candidate->place);
    candidates_.turn_back(candidate->place);
  }
}

void Selector::unblock(std::int64_t place) {
  if (const auto waiting = blocked_.unblock(place)) candidates_.turn_back(*waiting);
}

void Selector::choose() {
  const std::size_t limit = scene_.limit;
  if (request_.probe) {
    // A row that has never failed says most about the broker.
    pick_fresh(limit);
    pick_retries(limit);
    const auto found = [this] { return stopped_ || !selection_.rows.empty(); };
    const auto visit = [this](const Candidate& candidate) { return pick(candidate); };
    candidates_.walk_waiting(INT64_MAX, found, visit);
  } else if (request_.retry_limit >= limit) {
    pick_in_table_order();
  } else {
    pick_retries(request_.retry_limit);
    pick_fresh(limit);
    pick_retries(limit);
  }
}

bool Selector::enough(std::size_t target) const {
  return stopped_ || selection_.rows.size() >= std::min(target, scene_.limit);
}

// A row that must be alone was met while others were held: its turn comes before anything else.
bool Selector::take_solitary() {
  if (!solitary_) return false;
  const auto candidate = candidates_.find(*solitary_);
  if (!candidate || candidate->holder || !wants_to_be_alone(*candidate)) {
    solitary_.reset();
    return false;
  }
  if (request_.holding > 0) {
    selection_.wants_solitude = true;
    stopped_ = true;
    return true;
  }
  if (!scene_.look_only) solitary_.reset();
  return pick(*candidate) != Step::passed;
}

void Selector::pick_fresh(std::size_t target) {
  candidates_.walk_fresh([&] { return enough(target); },
                         [this](const Candidate& candidate) { return pick(candidate); });
}

void Selector::pick_retries(std::size_t target) {
  const auto is_enough = [&] { return enough(target); };
  const auto visit = [this](const Candidate& candidate) { return pick(candidate); };
  if (request_.recovered > 0) {
    candidates_.walk_waiting(static_cast<std::int64_t>(request_.recovered), is_enough, visit);
  }
  candidates_.walk_due(is_enough, visit);
}

// Fresh rows and retries alike, by their place in the table.
void Selector::pick_in_table_order() {
  const std::vector<Candidate> retries = collect_retries();
  auto next = retries.begin();
  const auto pick_before = [&](std::int64_t place) {
    while (next != retries.end() && next->place < place && !enough(scene_.limit)) pick(*next++);
  };
  candidates_.walk_fresh([&] { return enough(scene_.limit); },
                         [&](const Candidate& candidate) {
                           pick_before(candidate.place);
                           return enough(scene_.limit) ? Step::halt : pick(candidate);
                         });
  pick_before(INT64_MAX);
  if (next != retries.end()) selection_.more = true;
  if (next != retries.end() || scene_.look_only) candidates_.start_over_due();
}

// As many retries as could be leased, by their place in the table.
std::vector<Candidate> Selector::collect_retries() {
  std::vector<Candidate> retries;
  std::unordered_set<std::int64_t> seen;
  const auto full = [&] { return retries.size() >= scene_.limit; };
  const auto collect = [&](const Candidate& candidate) {
    if (candidate.holder) {
      return candidate.holder == scene_.incarnation ? Step::mine : Step::passed;
    }
    if (seen.insert(candidate.place).second) retries.push_back(candidate);
    return Step::taken;
  };
  if (request_.recovered > 0) {
    candidates_.walk_waiting(static_cast<std::int64_t>(request_.recovered), full, collect);
  }
  candidates_.walk_due(full, collect);
  std::sort(retries.begin(), retries.end(),
            [](const Candidate& one, const Candidate& other) { return one.place < other.place; });
  return retries;
}

Step Selector::pick(const Candidate& candidate) {
  if (picked_.contains(candidate.place)) return Step::mine;
  if (candidate.holder) {
    return candidate.holder == scene_.incarnation ? Step::mine : Step::passed;
  }
  if (waits(candidate) || !key_is_free(candidate)) return Step::passed;
  const bool alone = wants_to_be_alone(candidate);
  if (alone && (request_.holding > 0 || !selection_.rows.empty())) {
    solitary_ = candidate.key;
    selection_.wants_solitude = true;
    stopped_ = true;
    return Step::halt;
  }
  const std::uint64_t size = size_of(candidate);
  if (!fits(size)) {
    stopped_ = true;
    return Step::halt;
  }
  bytes_ += size <= request_.payload_max ? size : 0;
  picked_.insert(candidate.place);
  selection_.rows.push_back({candidate.key, candidate.place, size, alone, candidate.noted});
  if (request_.ordering == Ordering::key && candidate.ordering_key) {
    free_up_to_[*candidate.ordering_key] = candidate.place;
  }
  if (scene_.look_only || alone) stopped_ = true;
  if (scene_.look_only) return Step::halt;
  unblock(candidate.place);
  return Step::taken;
}

// The application asked for it to be sent later. What is no time is leased: its defect is found
// when it is read.
bool Selector::waits(const Candidate& candidate) {
  if (!candidate.not_before) return false;
  const auto time = times_.read(*candidate.not_before);
  return time && *time > scene_.wall;
}

bool Selector::wants_to_be_alone(const Candidate& candidate) const {
  return candidate.takeovers >= kTakeoversBeforeSolitude;
}

bool Selector::fits(std::uint64_t size) const {
  // What is too large to be loaded takes no memory.
  if (selection_.rows.empty() || size > request_.payload_max) return true;
  return bytes_ + size <= request_.bytes;
}

std::uint64_t Selector::size_of(const Candidate& candidate) {
  return candidate.payload_size ? *candidate.payload_size : sizes_.bytes(candidate.place);
}

// Whether all undecided rows of the key that come before are held by this relay, or picked.
bool Selector::key_is_free(const Candidate& candidate) {
  if (request_.ordering == Ordering::none || !candidate.ordering_key) return true;
  const std::string& key = *candidate.ordering_key;
  // The head that blocks its key is not held back by itself.
  if (blocked_.blocker(key) != candidate.place && blocked_.holds_back(key, candidate.place)) {
    return false;
  }
  const auto known = free_up_to_.find(key);
  const std::int64_t after = known == free_up_to_.end() ? INT64_MIN : known->second;
  const auto blocker = blocker_of(candidate, after);
  if (blocker) blocked_.block(key, *blocker, candidate.place);
  return !blocker.has_value();
}

std::optional<std::int64_t> Selector::blocker_of(const Candidate& candidate, std::int64_t after) {
  if (request_.dead_blocks_key) {
    if (const auto dead = dead_before(candidate, after)) return dead;
  }
  auto rows = open_of_key_.rows(outbox_, *candidate.ordering_key, after, candidate.place);
  while (rows.next()) {
    const std::int64_t place = rows.integer(0);
    const std::string state = rows.text(1);
    if (state == state::kProcessed || state == state::kSkipped) continue;
    if (state == state::kDeadLettered && !request_.dead_blocks_key) continue;
    const bool ours = !rows.null(2) && rows.integer(2) == scene_.incarnation;
    if (!ours && !picked_.contains(place)) return place;
  }
  return std::nullopt;
}

// Dead letters have an index of their own: a key that they don't block may have very many.
std::optional<std::int64_t> Selector::dead_before(const Candidate& candidate, std::int64_t after) {
  auto rows = dead_of_key_.rows(outbox_, *candidate.ordering_key, after, candidate.place);
  while (rows.next()) {
    const std::string state = rows.text(1);
    if (state != state::kProcessed && state != state::kSkipped) return rows.integer(0);
  }
  return std::nullopt;
}

}  // namespace outbox::sqlite
