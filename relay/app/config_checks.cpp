#include "relay/app/config_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "relay/app/config_routes.h"
#include "relay/app/config_value.h"
#include "relay/app/printable.h"
#include "relay/app/suggest.h"

namespace outbox {
namespace {

class Checks {
 public:
  Checks(const CheckedValues& values, const ConfigInput& input, const Backends& backends,
         Config& config)
      : values_(values), input_(input), backends_(backends), config_(config) {}

  void run() {
    check_store();
    check_broker();
    check_times();
    check_ladder();
    check_breaker();
    check_routes();
    check_unfinished();
  }

 private:
  std::string broker_path(const char* name) const {
    return fmt::format("brokers.{}.{}", config_.settings.broker, name);
  }

  const CheckedValue& at(const std::string& path) const { return values_.at(path); }

  // All of these were read without a problem, so that comparing them means something.
  bool good(std::initializer_list<std::string> paths) const {
    return std::ranges::all_of(paths, [this](const auto& path) { return at(path).good; });
  }

  void fail(const std::string& path, std::string reason) {
    const auto& checked = at(path);
    auto problem = problem_with(*checked.key, path, checked.node, std::move(reason));
    if (checked.node.kind != ConfigNode::Kind::scalar && checked.good) {
      problem.value = format_value(*checked.key, checked.value);
    }
    config_.problems.push_back(std::move(problem));
  }

  // What a backend has found, where the setting stands that it names.
  void fail_below(const std::string& section, const SettingDefect& defect) {
    const std::string path = section + "." + defect.setting;
    const std::string map = map_of(path);
    const std::string key = map.empty() ? path : map;
    // The problem tells the path.
    std::string text = defect.text;
    for (const std::string& named : {path + ": ", key + ": "}) {
      if (text.starts_with(named)) text.erase(0, named.size());
    }
    if (!values_.contains(key)) return fail(section + ".url", defect.setting + ": " + text);
    // What could not be read has its problem already, and so has what is wrong in any database.
    const bool told = std::ranges::any_of(
        config_.problems, [&](const Problem& problem) { return problem.path == path; });
    if (told || !at(key).good) return;
    if (map.empty()) return fail(path, std::move(text));
    fail_entry(map, path, std::move(text));
  }

  void fail_entry(const std::string& map, const std::string& path, std::string text) {
    const auto& entries = at(map).node.entries;
    const auto entry = std::ranges::find(entries, path.substr(map.size() + 1),
                                         [](const ConfigEntry& one) { return one.key.text; });
    if (entry == entries.end()) return fail(map, std::move(text));
    config_.problems.push_back(problem_with(*at(map).key, path, entry->value, std::move(text)));
  }

  // Of two settings that contradict each other, the one that somebody wrote is to blame.
  void fail_either(const std::string& first, const std::string& second, std::string reason) {
    const bool first_written = at(first).node.origin.kind > Origin::Kind::profile;
    const bool second_written = at(second).node.origin.kind > Origin::Kind::profile;
    fail(!first_written && second_written ? second : first, std::move(reason));
  }

  // Looks the URL's scheme up; a sentence with the known ones if it is not there.
  template <class Backend>
  const Backend* backend_of(const std::string& path, const std::map<std::string, Backend>& known,
                            const char* flag, bool needed) {
    const std::string& url = at(path).value.text;
    if (!at(path).good) return nullptr;
    if (url.empty()) {
      if (needed) fail(path, fmt::format("is missing; give it in the file or with {}", flag));
      return nullptr;
    }
    if (has_password(url)) {
      fail(path, "must not hold a password: URLs are shown; " + password_advice(path));
      return nullptr;
    }
    const auto found = known.find(scheme_of(url));
    if (found != known.end()) return &found->second;
    std::vector<std::string> schemes;
    schemes.reserve(known.size());
    for (const auto& [scheme, backend] : known) schemes.push_back(scheme);
    const std::string scheme = printable(scheme_of(url), 40);
    const std::string what =
        scheme.empty() ? "has no scheme" : fmt::format("unknown scheme \"{}\"", scheme);
    fail(path, fmt::format("{}; this program was built with {}{}", what,
                           schemes.empty() ? "none" : fmt::format("{}", fmt::join(schemes, ", ")),
                           did_you_mean(scheme, schemes)));
    return nullptr;
  }

  static std::string password_advice(const std::string& path) {
    const std::string in_file = "put it in a file and name that in ";
    if (path.starts_with("brokers.")) return in_file + "passwordFile";
    return "leave it out, or " + in_file + "store.passwordFile";
  }

  void check_store() {
    const StoreBackend* store =
        backend_of("store.url", backends_.stores, "--store URL", input_.needs_store);
    if (at("store.table").good && at("store.table").value.text.empty())
      fail("store.table", "is empty; name the outbox table");
    if (store == nullptr || !store->check) return;
    for (const auto& defect : store->check(config_.settings.store)) fail_below("store", defect);
  }

  void check_broker() {
    const std::string url = broker_path("url");
    const PublisherBackend* publisher =
        backend_of(url, backends_.publishers, "--broker URL", input_.needs_broker);
    const auto& envelope = at(broker_path("envelope")).value.text;
    if (envelope == "masstransit") {
      fail(broker_path("envelope"),
           "is not part of this version; use cloudevents-binary, cloudevents-structured or raw");
    }
    if (publisher == nullptr || !publisher->check) return;
    for (const auto& defect : publisher->check(config_.settings.publisher)) {
      // Who does not speak to the broker can do without the files that it takes.
      if (input_.needs_broker || defect.file.empty()) {
        fail_below("brokers." + config_.settings.broker, defect);
      }
    }
  }

  void check_times() {
    const std::string lease = "relay.leaseTerm";
    const std::string publish = broker_path("publishTimeout");
    const auto& relay = config_.settings.relay;
    if (good({lease, publish}) && relay.lease_term < 3 * relay.publish_timeout) {
      fail_either(
          lease, publish,
          fmt::format("leaseTerm ({}) must be at least 3 x publishTimeout ({}), or leases "
                      "would end while messages travel",
                      format_duration(relay.lease_term), format_duration(relay.publish_timeout)));
    }
    const std::string batch = "relay.batchSize";
    const std::string window = "relay.maxInFlight";
    if (good({batch, window}) && relay.batch_size > relay.in_flight_max) {
      fail_either(batch, window,
                  fmt::format("batchSize ({}) must not be over maxInFlight ({})", relay.batch_size,
                              relay.in_flight_max));
    }
  }

  void check_ladder() {
    const auto& retry = config_.settings.relay.retry;
    if (good({"retry.baseDelay", "retry.maxDelay"}) && retry.max_delay < retry.base_delay) {
      fail_either("retry.maxDelay", "retry.baseDelay",
                  fmt::format("maxDelay ({}) must not be under baseDelay ({})",
                              format_duration(retry.max_delay), format_duration(retry.base_delay)));
    }
    const std::string path = "retry.redeliveryIntervals";
    if (!at(path).good) return;
    const auto& intervals = retry.redelivery_intervals;
    if (!std::ranges::is_sorted(intervals)) {
      fail(path, "must be ascending");
    } else if (intervals.empty()) {
      config_.warnings.push_back(fmt::format(
          "retry.redeliveryIntervals is empty: a message becomes a dead letter after {} attempts",
          retry.max_attempts));
    }
  }

  void check_breaker() {
    const auto& breaker = config_.settings.relay.breaker;
    if (at("breaker.failureRatio").good && breaker.failure_ratio <= 0) {
      fail("breaker.failureRatio", "must be more than 0 and at most 1");
    }
    if (good({"breaker.breakDuration", "breaker.breakDurationMax"}) &&
        breaker.break_max < breaker.break_duration) {
      fail_either(
          "breaker.breakDurationMax", "breaker.breakDuration",
          fmt::format("breakDurationMax ({}) must not be under breakDuration ({})",
                      format_duration(breaker.break_max), format_duration(breaker.break_duration)));
    }
  }

  void check_routes() {
    std::vector<std::string> brokers;
    for (const auto& [path, checked] : values_) {
      const auto segments = split(path, ".");
      if (segments.size() == 3 && segments[0] == "brokers" && segments[2] == "url") {
        brokers.push_back(segments[1]);
      }
    }
    for (const auto& named : route_brokers(at("routes").node)) {
      if (std::ranges::find(brokers, named.name) != brokers.end()) continue;
      config_.problems.push_back(
          {named.origin, named.path, named.name,
           fmt::format("there is no such broker; there is {}{}", fmt::join(brokers, ", "),
                       did_you_mean(named.name, brokers))});
    }
  }

  void check_unfinished() {
    for (const auto& [path, checked] : values_) {
      const auto& key = *checked.key;
      if (key.unfinished == Unfinished::no || !checked.good) continue;
      if (checked.node.origin.kind == Origin::Kind::fallback) continue;
      if (is_default(checked)) continue;
      if (key.unfinished == Unfinished::refuse) {
        fail(path, std::string(key.note));
      } else {
        config_.warnings.push_back(
            fmt::format("{}: {} has no effect: {}", describe(checked.node.origin), path, key.note));
      }
    }
  }

  static bool is_default(const CheckedValue& checked) {
    std::vector<Problem> none;
    ConfigValue fallback;
    const auto node = default_node(*checked.key);
    convert_value(*checked.key, "", node, fallback, none);
    return format_value(*checked.key, checked.value) == format_value(*checked.key, fallback);
  }

  const CheckedValues& values_;
  const ConfigInput& input_;
  const Backends& backends_;
  Config& config_;
};

}  // namespace

void check_config(const CheckedValues& values, const ConfigInput& input, const Backends& backends,
                  Config& config) {
  Checks(values, input, backends, config).run();
}

}  // namespace outbox
