// Which rows a turn leases.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/model/table.h"

namespace outbox::sim {

class LeaseChoice {
 public:
  LeaseChoice(const Table& table, ProcessId who, const LeaseRequest& request, Time now)
      : table_(table), who_(who), request_(request), now_(now) {}

  void run();

  const std::vector<RowNumber>& chosen() const { return chosen_; }
  bool alone() const { return alone_; }
  bool more() const { return more_; }
  bool wants_solitude() const { return wants_solitude_; }
  std::optional<Duration> next_due() const { return next_due_; }

 private:
  struct Candidate {
    const Row* row;
    std::optional<std::size_t> before;  // the candidate that precedes it in its key
    bool chosen = false;
  };

  void collect();
  void consider(const Row& row);
  void choose();
  void pass(Status status, std::size_t limit);
  void pass_in_table_order();
  bool take(Candidate& candidate);
  void probe();

  const Table& table_;
  const ProcessId who_;
  const LeaseRequest& request_;
  const Time now_;
  std::vector<Candidate> candidates_;
  std::unordered_map<std::string, std::optional<std::size_t>> last_of_key_;
  std::set<std::string> blocked_;
  const Row* probe_row_ = nullptr;  // waits for recovery, and is not due
  std::vector<RowNumber> chosen_;
  std::uint64_t bytes_ = 0;
  bool full_ = false;
  bool alone_ = false;
  bool more_ = false;
  bool wants_solitude_ = false;
  std::optional<Duration> next_due_;
};

}  // namespace outbox::sim
