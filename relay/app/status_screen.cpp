#include "relay/app/status_screen.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string_view>

#include "relay/app/printable.h"
#include "relay/app/talk.h"
#include "relay/app/units.h"

namespace outbox {
namespace {

constexpr std::size_t kTitleWidth = 11;
constexpr std::size_t kListMax = 5;
constexpr std::string_view kEllipsis = "...";

// Rows that failed alike, of which one can be looked at.
struct ErrorGroup {
  RecentError example;  // the latest
  std::size_t count = 0;
};

std::vector<ErrorGroup> grouped(const std::vector<RecentError>& errors) {
  std::vector<ErrorGroup> groups;
  for (const RecentError& error : errors) {
    const auto known = std::ranges::find_if(groups, [&](const ErrorGroup& group) {
      return group.example.event_type == error.event_type && group.example.error == error.error &&
             group.example.dead == error.dead;
    });
    if (known == groups.end()) {
      groups.push_back({error, 1});
    } else {
      ++known->count;
    }
  }
  return groups;
}

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Duration seconds(double value) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(value));
}

// How long the relay has been running, by its own word.
double running_seconds(const LiveRelay& live) {
  return std::max(1.0, unix_seconds() - live.sum("process_start_time_seconds"));
}

double rate(const StatusPicture& picture, const std::string& name) {
  const LiveRelay& live = picture.live;
  if (!picture.before || !picture.before->answers) return live.sum(name) / running_seconds(live);
  const std::chrono::duration<double> time = live.asked_at - picture.before->asked_at;
  // A relay that was started anew counts from zero.
  return std::max(0.0, live.sum(name) - picture.before->sum(name)) / std::max(0.001, time.count());
}

std::string state_of_circuit(const LiveRelay& live) {
  return live.label("broker_circuit_state", "state");
}

std::optional<Duration> next_probe(const LiveRelay& live) {
  const double at = live.sum("broker_circuit_next_probe_timestamp_seconds");
  if (at <= 0) return std::nullopt;
  return std::max(Duration::zero(), seconds(at - unix_seconds()));
}

class Screen {
 public:
  Screen(const StatusPicture& picture, std::size_t columns, std::size_t rows)
      : picture_(picture), columns_(columns), rows_(rows) {}

  std::vector<std::string> lines() {
    add_head();
    add_relay();
    add_circuit();
    add_backlog();
    add_rates();
    add_relays();
    add_dead_letters();
    add_errors();
    if (lines_.size() > rows_) lines_.resize(rows_);
    return std::move(lines_);
  }

 private:
  void add(const std::string& title, const std::string& text) {
    const std::string line = fmt::format("{:<{}}{}", title, kTitleWidth, text);
    const std::string whole = fitted(line, columns_);
    const bool cut = whole.size() < line.size() && columns_ > kEllipsis.size();
    lines_.push_back(cut ? fitted(line, columns_ - kEllipsis.size()) + std::string(kEllipsis)
                         : whole);
  }

  void add_head() {
    add("Outbox", fmt::format("{}   {}", printable_sentence(picture_.table, 60), picture_.time));
    add("Store", printable_sentence(picture_.store));
    if (!picture_.backlog.ok()) add("", "! " + printable_sentence(picture_.backlog.error));
  }

  void add_relay() {
    const LiveRelay& live = picture_.live;
    if (!live.answers) return add("Relay", printable_sentence(live.error));
    add("Relay",
        fmt::format("{} at {}, version {}, up {}", live.ready ? "ready" : printable(live.state),
                    picture_.url, printable(live.label("build_info", "version"), 20),
                    about_duration(seconds(running_seconds(live)))));
    if (!live.ready) add("", "! " + printable_sentence(live.reason));
  }

  void add_circuit() {
    const StoreOverview& overview = picture_.overview.value;
    std::string text = picture_.live.answers ? printable(state_of_circuit(picture_.live), 20) : "";
    if (const auto probe = next_probe(picture_.live)) {
      text += ", next probe in " + about_duration(*probe);
    }
    if (overview.isolated || overview.paused) {
      const std::string order = overview.isolated ? "isolated" : "paused";
      if (text != order) text += (text.empty() ? "" : ", ") + order;
      text += " by an operator: " + printable_sentence(overview.reason);
    }
    const std::string held = picture_.live.label("destinations_held", "reason");
    if (!held.empty()) text += ", destinations held: " + printable_sentence(held, 60);
    add("Circuit", text.empty() ? "not known without a relay" : text);
  }

  void add_backlog() {
    if (!picture_.backlog.ok()) return;
    const Backlog& backlog = picture_.backlog.value;
    add("Backlog",
        fmt::format("pending {}   failed {}   leased {}   dead letters {}", backlog.pending,
                    backlog.failed, backlog.leased, backlog.dead_lettered));
    add("Oldest", backlog.oldest_age ? about_duration(*backlog.oldest_age) : "nothing waits");
  }

  void add_rates() {
    if (!picture_.live.answers) return;
    const bool recent = picture_.before && picture_.before->answers;
    add("Rates",
        fmt::format("published {:.1f}/s   failed {:.1f}/s   retries {:.1f}/s   ({})",
                    rate(picture_, "published_total"), rate(picture_, "publish_failures_total"),
                    rate(picture_, "retries_total"), recent ? "now" : "since its start"));
  }

  void add_relays() {
    if (!picture_.overview.ok()) return;
    const auto& relays = picture_.overview.value.relays;
    const auto alive = std::ranges::count(relays, RelaySeen::Life::alive, &RelaySeen::life);
    add("Relays", fmt::format("{} alive, {} seen", alive, relays.size()));
    for (std::size_t i = 0; i < std::min<std::size_t>(relays.size(), 3); ++i) {
      const RelaySeen& relay = relays[i];
      add("", fmt::format("{} {:<7} process {}, leases {}, since {}", printable(relay.host, 30),
                          name_of(relay.life), relay.process, relay.leases,
                          printable(relay.started_at, 24)));
    }
  }

  void add_dead_letters() {
    if (!picture_.backlog.ok()) return;
    auto types = picture_.backlog.value.dead_by_event_type;
    if (types.empty()) return;
    std::ranges::stable_sort(types, std::greater{}, [](const auto& one) { return one.second; });
    add("Dead", "by event type");
    for (std::size_t i = 0; i < std::min(types.size(), kListMax); ++i) {
      const bool last = i + 1 == kListMax && types.size() > kListMax;
      add("", last ? fmt::format("... and {} more types", types.size() - i)
                   : fmt::format("{:>7}  {}", types[i].second, printable_sentence(types[i].first)));
    }
  }

  void add_errors() {
    const Answer<StoreOverview>& overview = picture_.overview;
    if (!overview.ok()) {
      // Mostly the same as keeps the backlog from being counted.
      if (overview.error == picture_.backlog.error) return;
      return add("", "! " + printable_sentence(overview.error));
    }
    // Two lines for each: what went wrong, and where to look further.
    const auto groups = grouped(overview.value.errors);
    const std::size_t room = rows_ > lines_.size() ? (rows_ - lines_.size()) / 2 : 0;
    for (std::size_t i = 0; i < std::min({groups.size(), kListMax, room}); ++i) {
      const RecentError& error = groups[i].example;
      add(i == 0 ? "Errors" : "",
          fmt::format("{} {}, {}: {}", groups[i].count, error.dead ? "dead" : "waiting",
                      printable_sentence(error.event_type, 24), printable_sentence(error.error)));
      add("", fmt::format("  such as {}, {} failed", printable(error.id, 60), error.attempts));
    }
  }

  const StatusPicture& picture_;
  const std::size_t columns_;
  const std::size_t rows_;
  std::vector<std::string> lines_;
};

nlohmann::ordered_json relay_json(const StatusPicture& picture) {
  const LiveRelay& live = picture.live;
  nlohmann::ordered_json body;
  body["answers"] = live.answers;
  body["url"] = picture.url;
  if (!live.answers) {
    body["error"] = live.error;
    return body;
  }
  body["ready"] = live.ready;
  body["state"] = live.state;
  body["reason"] = live.reason;
  body["version"] = live.label("build_info", "version");
  body["circuit"] = state_of_circuit(live);
  const auto probe = next_probe(live);
  body["nextProbeSeconds"] = nullptr;
  if (probe) body["nextProbeSeconds"] = std::chrono::duration<double>(*probe).count();
  body["publishedPerSecond"] = rate(picture, "published_total");
  body["failedPerSecond"] = rate(picture, "publish_failures_total");
  body["retriesPerSecond"] = rate(picture, "retries_total");
  return body;
}

nlohmann::ordered_json backlog_json(const Answer<Backlog>& answer) {
  if (!answer.ok()) return {{"error", answer.error}};
  const Backlog& backlog = answer.value;
  nlohmann::ordered_json body;
  body["pending"] = backlog.pending;
  body["failed"] = backlog.failed;
  body["leased"] = backlog.leased;
  body["deadLettered"] = backlog.dead_lettered;
  body["oldestAgeSeconds"] = nullptr;
  if (backlog.oldest_age) {
    body["oldestAgeSeconds"] = std::chrono::duration<double>(*backlog.oldest_age).count();
  }
  body["deadByEventType"] = nlohmann::ordered_json::object();
  for (const auto& [type, count] : backlog.dead_by_event_type) {
    body["deadByEventType"][type] = count;
  }
  return body;
}

void add_overview(const Answer<StoreOverview>& answer, nlohmann::ordered_json& body) {
  if (!answer.ok()) return;
  const StoreOverview& overview = answer.value;
  body["isolated"] = overview.isolated;
  body["paused"] = overview.paused;
  body["operatorReason"] = overview.reason;
  body["relays"] = nlohmann::ordered_json::array();
  for (const RelaySeen& relay : overview.relays) {
    body["relays"].push_back({{"host", relay.host},
                              {"process", relay.process},
                              {"startedAt", relay.started_at},
                              {"leases", relay.leases},
                              {"life", name_of(relay.life)}});
  }
  body["errors"] = nlohmann::ordered_json::array();
  for (const ErrorGroup& group : grouped(overview.errors)) {
    const RecentError& error = group.example;
    body["errors"].push_back({{"count", group.count},
                              {"eventType", error.event_type},
                              {"id", error.id},
                              {"attempts", error.attempts},
                              {"error", error.error},
                              {"dead", error.dead}});
  }
}

// How many columns a character may take, by its first byte and what follows it.
std::size_t width_of(unsigned char first) { return first < 0xe1 ? 1 : 2; }

}  // namespace

std::string fitted(const std::string& text, std::size_t columns) {
  std::size_t used = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto first = static_cast<unsigned char>(text[at]);
    std::size_t end = at + 1;
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) ++end;
    used += width_of(first);
    if (used > columns) return text.substr(0, at);
    at = end;
  }
  return text;
}

std::vector<std::string> status_lines(const StatusPicture& picture, std::size_t columns,
                                      std::size_t rows) {
  return Screen(picture, columns, rows).lines();
}

std::string status_json(const StatusPicture& picture, int indent) {
  nlohmann::ordered_json body;
  body["outbox"] = picture.table;
  body["store"] = picture.store;
  body["time"] = picture.time;
  body["relay"] = relay_json(picture);
  body["backlog"] = backlog_json(picture.backlog);
  add_overview(picture.overview, body);
  return dump(body, indent) + "\n";
}

}  // namespace outbox
