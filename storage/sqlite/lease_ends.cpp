#include "storage/sqlite/lease_ends.h"

#include <utility>

namespace outbox::sqlite {

LeaseEnds::LeaseEnds(Connection& connection, std::string outbox)
    : outbox_(std::move(outbox)),
      end_plain_(connection.database(),
                 "DELETE FROM outbox_relay_leases WHERE outbox = ?1 AND row_key = ?2 "
                 "AND epoch = ?3 AND incarnation = ?4 AND large = 0 AND noted = 0"),
      end_(connection.database(),
           "DELETE FROM outbox_relay_leases WHERE outbox = ?1 AND row_key = ?2 "
           "AND epoch = ?3 AND incarnation = ?4 RETURNING large, noted"),
      end_any_(connection.database(),
               "DELETE FROM outbox_relay_leases WHERE outbox = ?1 AND row_key = ?2"),
      end_run_(connection.database(),
               "DELETE FROM outbox_relay_leases WHERE outbox = ?1 AND row_key BETWEEN ?2 AND ?3 "
               "AND epoch = ?4 AND incarnation = ?5 AND large = 0 AND noted = 0"),
      savepoint_(connection.database(), "SAVEPOINT run"),
      release_(connection.database(), "RELEASE run"),
      undo_(connection.database(), "ROLLBACK TO run") {}

std::optional<EndedLease> LeaseEnds::end(const Value& row, LeaseId epoch,
                                         std::int64_t incarnation) {
  const auto number = static_cast<std::int64_t>(epoch);
  // Most leases are plain, and RETURNING costs as much again as the deletion.
  if (end_plain_.run(outbox_, row, number, incarnation) > 0) return EndedLease{};
  auto rows = end_.rows(outbox_, row, number, incarnation);
  if (!rows.next()) return std::nullopt;
  const EndedLease lease{rows.integer(0) != 0, rows.integer(1) != 0};
  rows.next();  // else the deletion would not be complete
  return lease;
}

// When fewer were ended than asked for, nothing tells which ones.
bool LeaseEnds::end_run(std::int64_t first, std::size_t count, LeaseId epoch,
                        std::int64_t incarnation) {
  savepoint_.run();
  const std::int64_t last = first + static_cast<std::int64_t>(count) - 1;
  const int ended =
      end_run_.run(outbox_, first, last, static_cast<std::int64_t>(epoch), incarnation);
  const bool all = static_cast<std::size_t>(ended) == count;
  if (!all) undo_.run();
  release_.run();
  return all;
}

}  // namespace outbox::sqlite
