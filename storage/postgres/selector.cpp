#include "storage/postgres/selector.h"

#include <algorithm>
#include <utility>

#include "storage/mapping/states.h"

namespace outbox::postgres {
namespace {

constexpr std::int64_t kTakeoversBeforeSolitude = 2;
constexpr std::size_t kWaitingMax = 10'000;
constexpr Duration kPassOverMin = std::chrono::milliseconds{50};
constexpr Duration kPassOverMax = std::chrono::seconds{1};
constexpr std::int64_t kAnyEpoch = std::numeric_limits<std::int64_t>::max();

bool by_place(const Candidate& one, const Candidate& other) { return one.place < other.place; }

}  // namespace

Selector::Selector(Connection& connection, const Sql& sql)
    : places_are_keys_(sql.tie() == "''"), candidates_(connection, sql), owners_(connection, sql) {}

void Selector::begin(const LeaseRequest& request, const Scene& scene) {
  request_ = request;
  scene_ = scene;
  bytes_ = 0;
  stopped_ = false;
  next_try_.reset();
  selection_ = {};
  picked_.clear();
  candidates_.begin(scene.now, scene.server, request.limit);
  // By keys, many rows may have to be read for one that can go.
  const bool inlines = request.ordering == Ordering::none && request.limit > 0;
  if (!request.probe && !solitary_) {
    candidates_.send_ahead(request.payload_max, inlines ? request.bytes : 0);
  }
  if (request.ordering == Ordering::key) {
    owners_.begin(scene.incarnation, request.dead_blocks_key, request.limit + request.holding + 1);
  }
}

Selection Selector::select() {
  if (!take_solitary()) choose();
  const bool met_others = request_.ordering == Ordering::key && owners_.met_others();
  if (stopped_ || met_others || !candidates_.exhausted()) selection_.more = true;
  selection_.waiting = selection_.waiting || candidates_.passed_any();
  if (candidates_.exhausted()) selection_.next_due = candidates_.next_due();
  if (next_try_) {
    const ServerTime then =
        scene_.server + std::chrono::ceil<std::chrono::microseconds>(*next_try_);
    selection_.next_due = std::min(selection_.next_due.value_or(then), then);
  }
  std::sort(selection_.rows.begin(), selection_.rows.end(),
            [](const Picked& one, const Picked& other) { return one.place < other.place; });
  return std::move(selection_);
}

void Selector::start_over() {
  waiting_behind_.clear();
  candidates_.start_over();
}

void Selector::settled(const std::vector<RowHandle>& rows) {
  for (const RowHandle& row : rows) {
    const auto found = waiting_behind_.find(std::get<std::string>(row.key));
    if (found == waiting_behind_.end()) continue;
    candidates_.turn_back(found->second);
    waiting_behind_.erase(found);
  }
}

void Selector::released(const std::vector<RowHandle>& rows) {
  settled(rows);
  for (const RowHandle& row : rows) {
    candidates_.turn_back({row.place, places_are_keys_ ? "" : std::get<std::string>(row.key)});
  }
}

void Selector::pass_over(const Picked& row) {
  if (passed_over_.size() >= kWaitingMax) passed_over_.clear();
  PassedOver& passed = passed_over_[row.key];
  passed.wait = std::clamp(passed.wait * 2, kPassOverMin, kPassOverMax);
  passed.until = scene_.now + passed.wait;
  candidates_.turn_back(row.place);
}

bool Selector::is_passed_over(const std::string& key) {
  const auto found = passed_over_.find(key);
  if (found == passed_over_.end() || scene_.now >= found->second.until) return false;
  const Duration left = found->second.until - scene_.now;
  next_try_ = std::min(next_try_.value_or(left), left);
  return true;
}

void Selector::choose() {
  const std::size_t limit = request_.limit;
  if (request_.probe) {
    // A row that has never failed says most about the broker.
    pick_fresh(limit);
    pick_retries(limit);
    Visitor any = picking(limit);
    any.enough = [this] { return stopped_ || !selection_.rows.empty(); };
    candidates_.walk_waiting(kAnyEpoch, any);
  } else if (request_.retry_limit >= limit) {
    pick_in_table_order();
  } else {
    pick_retries(request_.retry_limit);
    pick_fresh(limit);
    pick_retries(limit);
  }
}

bool Selector::enough(std::size_t target) const {
  return stopped_ || selection_.rows.size() >= std::min(target, request_.limit);
}

Visitor Selector::picking(std::size_t target) {
  return {[this, target] { return enough(target); },
          [this](const std::vector<Candidate>& candidates) { prepare(candidates); },
          [this](const Candidate& candidate) { return pick(candidate); }};
}

void Selector::prepare(const std::vector<Candidate>& candidates) {
  if (request_.ordering == Ordering::none) return;
  std::set<std::string> keys;
  for (const Candidate& candidate : candidates) {
    if (candidate.ordering_key && !candidate.holder) keys.insert(*candidate.ordering_key);
  }
  owners_.read(keys);
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
  solitary_.reset();
  prepare({*candidate});
  return pick(*candidate) != Step::passed;
}

void Selector::pick_fresh(std::size_t target) { candidates_.walk_fresh(picking(target)); }

void Selector::pick_retries(std::size_t target) {
  if (request_.recovered > 0) {
    candidates_.walk_waiting(static_cast<std::int64_t>(request_.recovered), picking(target));
  }
  candidates_.walk_due(picking(target));
}

// Fresh rows and retries alike, by their place in the table.
void Selector::pick_in_table_order() {
  const std::vector<Candidate> retries = collect_retries();
  auto next = retries.begin();
  const auto pick_before = [&](const Place* place) {
    while (next != retries.end() && (place == nullptr || next->place < *place) &&
           !enough(request_.limit)) {
      pick(*next++);
    }
  };
  Visitor visitor = picking(request_.limit);
  visitor.visit = [&](const Candidate& candidate) {
    pick_before(&candidate.place);
    return enough(request_.limit) ? Step::halt : pick(candidate);
  };
  candidates_.walk_fresh(visitor);
  pick_before(nullptr);
  if (next == retries.end()) return;
  selection_.more = true;
  candidates_.start_over_due();
}

// As many retries as could be leased, by their place in the table.
std::vector<Candidate> Selector::collect_retries() {
  std::vector<Candidate> retries;
  std::unordered_set<std::string> seen;
  const Visitor collect{[&] { return retries.size() >= request_.limit; },
                        [this](const std::vector<Candidate>& candidates) { prepare(candidates); },
                        [&](const Candidate& candidate) {
                          if (candidate.holder) {
                            return candidate.holder == scene_.incarnation ? Step::mine : pass();
                          }
                          if (seen.insert(candidate.key).second) retries.push_back(candidate);
                          return Step::taken;
                        }};
  if (request_.recovered > 0) {
    candidates_.walk_waiting(static_cast<std::int64_t>(request_.recovered), collect);
  }
  candidates_.walk_due(collect);
  std::sort(retries.begin(), retries.end(), by_place);
  return retries;
}

Step Selector::pick(const Candidate& candidate) {
  if (picked_.contains(candidate.key)) return Step::mine;
  if (candidate.holder) return candidate.holder == scene_.incarnation ? Step::mine : pass();
  if (candidate.asked_to_wait || is_passed_over(candidate.key)) return pass();
  if (!key_is_free(candidate)) return pass();
  const bool alone = wants_to_be_alone(candidate);
  if (alone && (request_.holding > 0 || !selection_.rows.empty())) {
    solitary_ = candidate.key;
    selection_.wants_solitude = true;
    stopped_ = true;
    return Step::halt;
  }
  if (!fits(candidate.payload_size)) {
    stopped_ = true;
    return Step::halt;
  }
  bytes_ += candidate.payload_size <= request_.payload_max ? candidate.payload_size : 0;
  picked_.insert(candidate.key);
  selection_.rows.push_back(
      {candidate.key, candidate.place, alone, candidate.noted,
       request_.ordering == Ordering::key ? candidate.ordering_key : std::nullopt, candidate.loaded,
       candidate.version});
  if (request_.ordering == Ordering::key) owners_.pick(candidate);
  if (alone) stopped_ = true;
  settled({RowHandle{candidate.key, candidate.place.number, 0}});
  return Step::taken;
}

Step Selector::pass() {
  selection_.waiting = true;
  return Step::passed;
}

bool Selector::wants_to_be_alone(const Candidate& candidate) const {
  return candidate.takeovers >= kTakeoversBeforeSolitude;
}

bool Selector::fits(std::uint64_t size) const {
  // What is too large to be loaded takes no memory.
  if (selection_.rows.empty() || size > request_.payload_max) return true;
  return bytes_ + size <= request_.bytes;
}

// Whether all undecided rows of the key that come before are held by this relay, or picked.
bool Selector::key_is_free(const Candidate& candidate) {
  if (request_.ordering == Ordering::none || !candidate.ordering_key) return true;
  std::optional<std::string> blocker;
  if (owners_.is_free(candidate, blocker)) return true;
  if (!blocker) return false;
  if (waiting_behind_.size() >= kWaitingMax) waiting_behind_.clear();
  const auto [found, first] = waiting_behind_.emplace(*blocker, candidate.place);
  if (!first) found->second = std::min(found->second, candidate.place);
  return false;
}

}  // namespace outbox::postgres
