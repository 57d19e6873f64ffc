#include "storage/postgres/key_owners.h"

#include <fmt/format.h>

#include <algorithm>

#include "storage/mapping/row_handle.h"
#include "storage/mapping/states.h"

namespace outbox::postgres {
namespace {

// Keys of one partition are locked together; so many locks at most are held in all.
constexpr std::uint32_t kPartitions = 1024;

std::int64_t partition_of(const std::string& key) { return fingerprint_of_id(key) % kPartitions; }

// The first rows of each of the keys $2 that are undecided, as far as $3. Columns: the key, the
// row, its place, the lease's holder, the state beside it, whether it is dead by its own columns.
std::string open_sql(const Sql& sql) {
  const std::string& column = sql.mapping().columns.ordering_key;
  return fmt::format(
      "SELECT x.key, o.* FROM unnest($2) AS x(key) CROSS JOIN LATERAL (SELECT {0}, {1}, {2}, "
      "l.incarnation, coalesce(r.state, ''), false FROM {3} {4} WHERE {5} = x.key::{6} AND {7} "
      "AND coalesce(r.state, '') NOT IN ('{8}', '{9}') ORDER BY {10} LIMIT $3) AS o",
      sql.key_text(), sql.place(), sql.tie(), sql.from(), sql.beside(), sql.column(column),
      sql.table().type_of(column), sql.is_open(), state::kProcessed, state::kSkipped, sql.order());
}

// The first dead letter of each of the keys $2.
std::string dead_sql(const Sql& sql) {
  const std::string& column = sql.mapping().columns.ordering_key;
  return fmt::format(
      "SELECT x.key, o.* FROM unnest($2) AS x(key) CROSS JOIN LATERAL (SELECT {0}, {1}, {2}, "
      "NULL::int8, '', true FROM {3} {4} WHERE {5} = x.key::{6} AND {7} "
      "AND coalesce(r.state, '') NOT IN ('{8}', '{9}') ORDER BY {10} LIMIT 1) AS o",
      sql.key_text(), sql.place(), sql.tie(), sql.from(), sql.side_row(), sql.column(column),
      sql.table().type_of(column), sql.is_dead(), state::kProcessed, state::kSkipped, sql.order());
}

}  // namespace

KeyOwners::KeyOwners(Connection& connection, const Sql& sql)
    : outbox_(sql.outbox()),
      has_keys_(!sql.mapping().columns.ordering_key.empty()),
      lock_(connection,
            "SELECT p FROM unnest($2) AS x(p) WHERE pg_catalog.pg_try_advisory_xact_lock("
            "pg_catalog.hashtextextended('outbox_relay ' || $1, 0) # p)") {
  if (!has_keys_) return;
  open_.emplace(connection, open_sql(sql));
  // In one statement: a row that dies, or is driven again, between two of them would be in neither.
  if (sql.is_dead() != "false") {
    open_and_dead_.emplace(connection, open_sql(sql) + " UNION ALL " + dead_sql(sql));
  }
}

void KeyOwners::begin(std::int64_t incarnation, bool dead_blocks, std::size_t rows_max) {
  incarnation_ = incarnation;
  dead_blocks_ = dead_blocks;
  rows_max_ = rows_max;
  met_others_ = false;
  views_.clear();
}

void KeyOwners::read(const std::set<std::string>& keys) {
  std::vector<std::string> news;
  for (const std::string& key : keys) {
    if (!views_.contains(key)) news.push_back(key);
  }
  if (news.empty() || !has_keys_) return;
  lock(news);
  std::erase_if(news, [this](const std::string& key) { return !views_[key].locked; });
  if (news.empty()) return;
  read_rows(news);
}

void KeyOwners::lock(const std::vector<std::string>& keys) {
  std::set<std::int64_t> partitions;
  for (const std::string& key : keys) partitions.insert(partition_of(key));
  std::set<std::int64_t> locked;
  Rows rows = lock_.rows(outbox_, std::vector<std::int64_t>(partitions.begin(), partitions.end()));
  while (rows.next()) locked.insert(rows.integer(0));
  for (const std::string& key : keys) {
    View& view = views_[key];
    view.locked = locked.contains(partition_of(key));
    met_others_ = met_others_ || !view.locked;
  }
}

void KeyOwners::read_rows(const std::vector<std::string>& keys) {
  Query& query = dead_blocks_ && open_and_dead_ ? *open_and_dead_ : *open_;
  Rows rows = query.rows(outbox_, keys, static_cast<std::int64_t>(rows_max_));
  while (rows.next()) {
    View& view = views_[rows.text(0)];
    const Row row{rows.text(1),
                  {rows.integer(2), rows.text(3)},
                  !rows.null(4) && rows.integer(4) == incarnation_};
    if (!rows.boolean(6) && rows.text(5) != state::kDeadLettered) {
      view.rows.push_back(row);
    } else if (dead_blocks_ && (!view.dead || row.place < view.dead->place)) {
      view.dead = row;
    }
  }
  for (const std::string& key : keys) {
    View& view = views_[key];
    std::sort(view.rows.begin(), view.rows.end(),
              [](const Row& one, const Row& other) { return one.place < other.place; });
    count_held(view);
  }
}

void KeyOwners::count_held(View& view) {
  while (view.held < view.rows.size() && view.rows[view.held].held) ++view.held;
}

bool KeyOwners::is_free(const Candidate& candidate, std::optional<std::string>& blocker) const {
  const auto found = views_.find(candidate.ordering_key.value_or(""));
  if (found == views_.end() || !found->second.locked) return false;
  const View& view = found->second;
  if (view.dead && view.dead->place < candidate.place) {
    blocker = view.dead->key;
    return false;
  }
  if (view.held == view.rows.size()) return false;  // farther behind than was read, or decided
  if (view.rows[view.held].key == candidate.key) return true;
  blocker = view.rows[view.held].key;
  return false;
}

void KeyOwners::pick(const Candidate& candidate) {
  const auto found = views_.find(candidate.ordering_key.value_or(""));
  if (found == views_.end()) return;
  View& view = found->second;
  for (Row& row : view.rows) row.held = row.held || row.key == candidate.key;
  count_held(view);
}

}  // namespace outbox::postgres
