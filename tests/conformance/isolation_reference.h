// What a turn may do to an outbox, whoever else is at work: a small model beside the stores.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/isolation_stage.h"

namespace outbox::conformance::isolation {

// A promise was broken.
struct Violation : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// What a relay asked for, by the events' ids.
struct Asked {
  std::uint64_t number = 0;
  struct Verdict {
    std::string id;
    Settlement settlement;
  };
  std::vector<Verdict> verdicts = {};
  std::vector<Verdict> postponed = {};  // late ones of earlier turns, which met a locked row
  std::size_t limit = 0;
  bool retires = false;
  bool redrives = false;  // an operator, all dead letters
};

// What a turn has done by its commit.
struct Effect {
  bool committed = false;
  std::int64_t incarnation = 0;
  LeaseId epoch = 0;
  std::size_t fenced = 0;
  std::size_t too_late = 0;  // of them, confirmations: while others lock the row, put off as well
  std::size_t taken_over = 0;
  std::vector<std::string> leased;
  std::vector<Asked::Verdict> postponed;
};

// Watches one history of an outbox, step by step. Each throws Violation.
class Reference {
 public:
  Reference(Ordering ordering, View view) : ordering_(ordering), view_(std::move(view)) {}

  const View& view() const { return view_; }

  // A relay, or an operator, has gone on; nothing, if that has changed nothing that others see.
  // `incarnation`: under which it has signed before.
  std::optional<Effect> session_moved(const View& now, const Asked& asked,
                                      std::int64_t incarnation);
  // The application has committed those rows; none: nothing was committed.
  void rows_came(const View& now, const std::vector<NewRow>& rows);
  // Time has passed.
  void time_passed(const View& now);
  // A row that is leased, or could be delivered.
  std::optional<std::string> unrest() const;

 private:
  std::optional<Effect> explain(const View& now, const Asked& asked, std::int64_t incarnation);
  std::vector<RowView> retired(const View& now, std::int64_t incarnation) const;
  std::vector<RowView> redriven(const View& now) const;
  void accept(const View& now);
  void require_rise(const View& now);

  const Ordering ordering_;
  View view_;
  std::map<std::string, LeaseId> highest_;  // epoch of each row
};

const RowView* find_row(const View& view, const std::string& id);

}  // namespace outbox::conformance::isolation
