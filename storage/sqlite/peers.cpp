#include "storage/sqlite/peers.h"

#include <fmt/format.h>

#include <utility>

namespace outbox::sqlite {
namespace {

constexpr std::uint32_t kCrashesMax = 5;
// A relay that is silent for so long, and holds nothing, is gone even if no lock can prove it.
constexpr auto kForgetAfter = std::chrono::hours{24};

}  // namespace

Peers::Peers(Connection& connection, const Sql& sql, std::string outbox, const Clocks& clocks)
    : connection_(connection),
      outbox_(std::move(outbox)),
      clocks_(clocks),
      directory_(directory_of(connection.path())),
      others_(connection.database(),
              "SELECT incarnation, boot_id, lease_until, lock_path, lock_dev, lock_inode "
              "FROM outbox_relay_incarnations WHERE outbox = ?1 AND incarnation <> ?2"),
      has_leases_(connection.database(),
                  "SELECT 1 FROM outbox_relay_leases WHERE outbox = ?1 AND incarnation = ?2 "
                  "LIMIT 1"),
      lease_until_(connection.database(),
                   "SELECT lease_until, boot_id FROM outbox_relay_incarnations "
                   "WHERE outbox = ?1 AND incarnation = ?2"),
      leases_(connection.database(),
              "SELECT row_key, alone FROM outbox_relay_leases "
              "WHERE outbox = ?1 AND incarnation = ?2 ORDER BY row_key LIMIT ?3"),
      fingerprint_(connection.database(),
                   fmt::format("SELECT {} FROM {} AS o WHERE {} = ?1", sql.fingerprint(),
                               sql.table(), sql.row_key())),
      forget_another_(connection.database(),
                      "DELETE FROM outbox_relay_rows WHERE outbox = ?1 AND row_key = ?2 "
                      "AND coalesce(fingerprint, 0) NOT IN (0, ?3)"),
      note_(connection.database(),
            "INSERT INTO outbox_relay_rows (outbox, row_key, outcome_unknown, takeovers, crashes, "
            "fingerprint) VALUES (?1, ?2, 1, ?3, ?4, ?5) ON CONFLICT (outbox, row_key) "
            "DO UPDATE SET outcome_unknown = 1, takeovers = takeovers + ?3, "
            "crashes = crashes + ?4, fingerprint = ?5 RETURNING crashes"),
      end_lease_(connection.database(),
                 "DELETE FROM outbox_relay_leases WHERE outbox = ?1 AND row_key = ?2"),
      erase_(connection.database(),
             "DELETE FROM outbox_relay_incarnations WHERE outbox = ?1 AND incarnation = ?2") {}

std::vector<Ended> Peers::examine(std::int64_t self) {
  std::vector<Ended> ended;
  const std::vector<Peer> peers = others(self);
  alone_ = peers.empty();
  for (const Peer& peer : peers) {
    if (auto one = judge(peer)) ended.push_back(std::move(*one));
  }
  return ended;
}

std::vector<Peers::Peer> Peers::others(std::int64_t self) {
  std::vector<Peer> peers;
  auto rows = others_.rows(outbox_, self);
  while (rows.next()) {
    Peer peer;
    peer.incarnation = rows.integer(0);
    peer.this_boot = rows.text(1) == clocks_.boot_id;
    peer.lease_until = Time(Duration(rows.integer(2)));
    // A bare name, beside the database wherever that is mounted: never a path out of there.
    const std::string name = rows.text(3);
    if (!name.empty() && name.find('/') == std::string::npos) {
      peer.lock_path = directory_ + "/" + name;
    }
    peer.lock = {static_cast<dev_t>(rows.integer(4)), static_cast<ino_t>(rows.integer(5))};
    peers.push_back(std::move(peer));
  }
  return peers;
}

std::optional<Ended> Peers::judge(const Peer& peer) {
  Ended ended{.incarnation = peer.incarnation, .dead = false, .lock = std::nullopt};
  if (!peer.lock_path.empty()) {
    ended.lock = DeadLock::obtain(peer.lock_path, peer.lock);
    ended.dead = ended.lock.has_value();
  }
  if (ended.dead) return ended;
  if (!peer.this_boot) {
    // The machine was started anew since, unless its lock says otherwise.
    if (!peer.lock_path.empty() && is_visibly_held(peer.lock_path, peer.lock)) return std::nullopt;
    ended.dead = true;
    return ended;
  }
  const Time now = clocks_.boot->now();
  if (peer.lease_until >= now) return std::nullopt;
  auto rows = has_leases_.rows(outbox_, peer.incarnation);
  const bool holds = rows.next();
  if (!holds && now - peer.lease_until < kForgetAfter) return std::nullopt;
  return ended;
}

// It may have renewed its leases between the look and the transaction.
bool Peers::still_ended(const Ended& ended) {
  auto rows = lease_until_.rows(outbox_, ended.incarnation);
  if (!rows.next()) return false;
  return ended.dead ||
         (rows.text(1) == clocks_.boot_id && Time(Duration(rows.integer(0))) < clocks_.boot->now());
}

// Returns how many relays died while they held this row only. What was noted of another event under
// this key is forgotten first.
std::uint32_t Peers::note(const Value& row, bool dead, bool alone) {
  std::int64_t fingerprint = 0;
  {
    auto rows = fingerprint_.rows(row);
    if (!rows.next()) return 0;  // deleted meanwhile
    fingerprint = rows.integer(0);
  }
  forget_another_.run(outbox_, row, fingerprint);
  auto noted = note_.rows(outbox_, row, dead ? 1 : 0, dead && alone ? 1 : 0, fingerprint);
  const auto crashes = noted.next() ? static_cast<std::uint32_t>(noted.integer(0)) : 0;
  noted.next();  // else the change would not be complete
  return crashes;
}

TakeOver Peers::take_over(const Ended& ended, const Holder& holder, std::size_t limit,
                          Settler& settler) {
  TakeOver result;
  if (!still_ended(ended)) return result;
  std::vector<std::pair<Value, bool>> leases;
  {
    auto rows = leases_.rows(outbox_, ended.incarnation, limit);
    while (rows.next()) {
      leases.emplace_back(rows.value(0).value_or(Value{}), rows.integer(1) != 0);
    }
  }
  for (const auto& [row, alone] : leases) {
    const std::uint32_t crashes = note(row, ended.dead, alone);
    end_lease_.run(outbox_, row);
    result.rows.push_back(row);
    if (ended.dead && alone && crashes >= kCrashesMax) {
      result.buried.push_back(settler.bury_crashed(row, crashes, holder));
    }
  }
  result.leases = leases.size();
  result.complete = leases.size() < limit;
  if (result.complete) erase_.run(outbox_, ended.incarnation);
  return result;
}

}  // namespace outbox::sqlite
