#include "tests/sim/model/lease_choice.h"

#include <algorithm>

namespace outbox::sim {

void LeaseChoice::run() {
  collect();
  choose();
  if (chosen_.empty() && candidates_.empty()) probe();
  std::sort(chosen_.begin(), chosen_.end());
  more_ = chosen_.size() < candidates_.size();
}

void LeaseChoice::collect() {
  for (const RowNumber number : table_.unfinished()) consider(table_.row(number));
}

void LeaseChoice::consider(const Row& row) {
  const bool keyed = request_.ordering == Ordering::key && row.key.has_value() &&
                     table_.scenario_.bug != Bug::store_ignores_order;
  if (keyed && blocked_.contains(*row.key)) return;
  const auto block = [&] {
    if (keyed) blocked_.insert(*row.key);
  };
  if (row.status == Status::dead) {
    if (request_.dead_blocks_key) block();
    return;
  }
  if (row.holder != 0 && table_.scenario_.bug != Bug::store_leases_leased_rows) {
    if (row.holder != who_ || !table_.scenario_.extends_prefix) block();
    return;
  }
  if (row.status == Status::failed && row.holder == 0 && row.due > now_) {
    const Duration wait = row.due - now_;
    if (!next_due_ || wait < *next_due_) next_due_ = wait;
  }
  if (!table_.is_due(row, request_.recovered, now_)) {
    if (row.status == Status::failed && row.waits_since != 0 &&
        (probe_row_ == nullptr || row.due < probe_row_->due)) {
      probe_row_ = &row;
    }
    block();
    return;
  }
  Candidate candidate{&row, std::nullopt};
  if (keyed) {
    auto& last = last_of_key_[*row.key];
    candidate.before = last;
    last = candidates_.size();
  }
  candidates_.push_back(candidate);
}

// Failed rows within their share, then Pending ones, then as many Failed ones as there is room for.
// For a probe a row that has never failed comes first: it says most about the broker.
void LeaseChoice::choose() {
  if (request_.limit == 0) return;
  if (!request_.probe && request_.retry_limit >= request_.limit) pass_in_table_order();
  if (!request_.probe) pass(Status::failed, std::min(request_.retry_limit, request_.limit));
  pass(Status::pending, request_.limit);
  pass(Status::failed, request_.limit);
}

void LeaseChoice::pass(Status status, std::size_t limit) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    if (!candidates_[i].chosen && candidates_[i].row->status == status) order.push_back(i);
  }
  if (status == Status::failed) {
    std::stable_sort(order.begin(), order.end(), [&](std::size_t left, std::size_t right) {
      return candidates_[left].row->due < candidates_[right].row->due;
    });
  }
  for (const std::size_t i : order) {
    if (full_ || chosen_.size() >= limit) return;
    Candidate& candidate = candidates_[i];
    if (candidate.before && !candidates_[*candidate.before].chosen) continue;
    if (!take(candidate)) return;
  }
}

void LeaseChoice::pass_in_table_order() {
  for (Candidate& candidate : candidates_) {
    if (full_ || chosen_.size() >= request_.limit) return;
    if (candidate.before && !candidates_[*candidate.before].chosen) continue;
    if (!take(candidate)) return;
  }
}

bool LeaseChoice::take(Candidate& candidate) {
  const Row& row = *candidate.row;
  if (row.must_be_alone) {
    full_ = true;
    if (!chosen_.empty() || request_.holding > 0) {
      wants_solitude_ = true;
      return false;
    }
    alone_ = true;
  } else {
    const std::uint64_t size = row.payload_size > request_.payload_max ? 0 : row.payload_size;
    if (!chosen_.empty() && bytes_ + size > request_.bytes) {
      full_ = true;
      return false;
    }
    bytes_ += size;
  }
  candidate.chosen = true;
  chosen_.push_back(row.number);
  return true;
}

void LeaseChoice::probe() {
  if (!request_.probe || request_.limit == 0 || probe_row_ == nullptr) return;
  candidates_.push_back(Candidate{probe_row_, std::nullopt});
  take(candidates_.back());
}

}  // namespace outbox::sim
