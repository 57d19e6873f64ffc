#include "storage/mapping/findings.h"

#include <fmt/format.h>

#include <algorithm>

namespace outbox {
namespace {

constexpr auto kClockSlack = std::chrono::minutes{5};

std::string about(std::chrono::milliseconds time) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time).count();
  if (seconds < 120) return fmt::format("{} s", seconds);
  if (seconds < 7200) return fmt::format("{} min", seconds / 60);
  if (seconds < 172'800) return fmt::format("{} h", seconds / 3600);
  return fmt::format("{} d", seconds / 86'400);
}

}  // namespace

std::string counted(std::uint64_t number, const char* noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

std::optional<Finding> judge_clock(WallTime newest, WallTime now, const std::string& whose) {
  if (newest <= now + kClockSlack) return std::nullopt;
  const auto ahead = newest - now;
  // Local time written as if it were UTC is off by whole quarters of an hour.
  const auto odd = ahead % std::chrono::minutes{15};
  const bool zone = ahead < std::chrono::hours{15} &&
                    (odd < std::chrono::minutes{1} || odd > std::chrono::minutes{14});
  return Finding{
      .severity = Severity::warning,
      .code = "clock",
      .what = fmt::format("The newest event occurred {} ahead of {} clock.", about(ahead), whose),
      .why =
          "Ages and due times are reckoned from these clocks: alerts on age are "
          "silent, and retries may come early or late.",
      .fix = zone ? "The application seems to write its local time: let it write UTC."
                  : fmt::format("Set the clocks of the application's and {} machine (NTP).",
                                whose == "this machine's" ? "this" : "the server's")};
}

std::optional<Finding> judge_relays(const std::vector<RelaySeen>& relays) {
  std::uint64_t leases = 0;
  std::string who;
  for (const RelaySeen& relay : relays) {
    if (relay.life == RelaySeen::Life::alive || relay.leases == 0) continue;
    if (relay.life == RelaySeen::Life::unknown) continue;
    leases += relay.leases;
    who += fmt::format("{}{} (process {})", who.empty() ? "" : ", ", relay.host, relay.process);
  }
  if (leases == 0) return std::nullopt;
  const bool others = std::ranges::any_of(
      relays, [](const RelaySeen& one) { return one.life == RelaySeen::Life::alive; });
  return Finding{
      .severity = Severity::warning,
      .code = "dead_relay",
      .what = fmt::format("{} {} leased to relays that have died: {}.", counted(leases, "row"),
                          leases == 1 ? "is" : "are", who),
      .why = "They wait until another relay takes them over, and some may be delivered twice.",
      .fix_kind = others ? FixKind::advice : FixKind::command,
      .fix =
          others ? "A relay is running: it takes them over within seconds." : "outbox-relay run"};
}

std::vector<Finding> judge_orders(const StoreOverview& orders) {
  std::vector<Finding> findings;
  const std::string reason = orders.reason.empty() ? "no reason given" : orders.reason;
  if (orders.isolated) {
    findings.push_back(
        {.severity = Severity::warning,
         .code = "circuit_isolated",
         .what = fmt::format("An operator has isolated the circuit: {}.", reason),
         .why = "No relay of this outbox publishes anything until it is closed again.",
         .fix_kind = FixKind::command,
         .fix = "outbox-relay broker close"});
  }
  if (orders.paused) {
    findings.push_back({.severity = Severity::warning,
                        .code = "outbox_paused",
                        .what = fmt::format("An operator has paused the outbox: {}.", reason),
                        .why = "No relay leases anything until it is resumed.",
                        .fix_kind = FixKind::command,
                        .fix = "outbox-relay resume"});
  }
  return findings;
}

// No choice is made for anybody: a wrong one floods the receiver or leaves events out.
Finding not_adopted(const std::string& table, std::uint64_t old, bool ageless) {
  return {
      .severity = Severity::error,
      .code = "not_adopted",
      .what = fmt::format("{} of {} to be sent {} {}, and no relay has begun on this table yet.",
                          counted(old, "row"), table, old == 1 ? "is" : "are",
                          ageless ? "older than an hour or of unknown age" : "older than an hour"),
      .why =
          "They may be there by mistake: the relay sends nothing until somebody says what "
          "is to become of them.",
      .fix = ageless ? "Say it with `outbox-relay adopt`: --all sends them all; --since TIME "
                       "and --skip-older may leave out rows whose time is not known. "
                       "--dry-run counts first."
                     : "Say it with `outbox-relay adopt`: --skip-older leaves them out, --since "
                       "TIME sends those since then, --all sends them all. --dry-run counts "
                       "first."};
}

Finding adopted_as_another(const std::string& table, const std::string& difference) {
  return {
      .severity = Severity::error,
      .code = "adopted_otherwise",
      .what = fmt::format("The columns or states of {} are other ones than the relay began with.",
                          table),
      .why = "Rows might be taken for others: the relay refuses to go on.",
      .fix = fmt::format("{} what is to become of the rows as they are now with `outbox-relay "
                         "adopt`.",
                         difference.empty()
                             ? "Say"
                             : fmt::format("To go on as before, set {}; else say", difference))};
}

}  // namespace outbox
