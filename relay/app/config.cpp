#include "relay/app/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <tuple>

#include "relay/app/config_checks.h"
#include "relay/app/config_value.h"
#include "relay/app/printable.h"

namespace outbox {
namespace {

// A table may be called anything, a segment of a URI may not (RFC 3986, unreserved characters).
std::string uri_segment(const std::string& text) {
  std::string segment;
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    const bool plain = (byte < 0x80 && std::isalnum(byte) != 0) ||
                       std::string_view("-._~").find(letter) != std::string_view::npos;
    segment += plain ? std::string(1, letter) : fmt::format("%{:02X}", byte);
  }
  return segment;
}

constexpr std::uintmax_t kLargestFile = 1U << 20;

// The file's text; nothing if it is missing and may be, or can't be read (a problem then).
std::optional<std::string> read_file(const ConfigInput& input, std::vector<Problem>& problems) {
  const Origin origin{Origin::Kind::file, input.file};
  const auto fail = [&](std::string reason) {
    problems.push_back(problem_at(origin, "", std::move(reason)));
    return std::nullopt;
  };
  std::error_code error;
  const auto status = std::filesystem::status(input.file, error);
  if (status.type() == std::filesystem::file_type::not_found) {
    if (!input.file_required) return std::nullopt;
    return fail("there is no such file; name one with --config FILE");
  }
  if (std::filesystem::is_directory(status)) return fail("is a directory; name a file");
  if (input.again && !std::filesystem::is_regular_file(status)) {
    return fail("is no regular file, but a pipe or the like, which can't be read again");
  }
  std::ifstream stream(input.file, std::ios::binary);
  if (!stream) return fail(fmt::format("can't be read: {}", std::strerror(errno)));
  std::string text(kLargestFile + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  if (text.size() > kLargestFile) return fail("is larger than 1MiB; is it the right file?");
  return text;
}

// What the file gives. `readable` is false when it gives nothing because it is broken as a whole.
struct FileLayer {
  ConfigLayer layer;
  bool readable = true;
  bool found = false;
};

FileLayer file_layer(const ConfigInput& input, std::vector<Problem>& problems) {
  FileLayer result;
  const std::size_t before = problems.size();
  const auto text = read_file(input, problems);
  if (text) {
    result.found = true;
    const Origin origin{Origin::Kind::file, input.file};
    const auto node = parse_yaml(*text, "", origin, &input.environment, problems);
    add_to_layer(result.layer, "", node, problems);
  }
  result.readable = problems.size() == before || !result.layer.empty();
  return result;
}

std::string profile_of(const ConfigLayer& layer) {
  const auto found = layer.find("profile");
  return found == layer.end() ? std::string{} : found->second.text;
}

// --broker URL means the only broker, whatever its name.
std::vector<FlagValue> with_broker_name(std::vector<FlagValue> flags, const std::string& broker) {
  for (auto& flag : flags) {
    if (flag.path == "broker.url") flag.path = concrete_path("brokers.*.url", broker);
  }
  return flags;
}

// Shows what a setting comes to that follows from others.
void show(Config& config, const std::string& path, const ConfigValue& value) {
  for (auto& shown : config.values) {
    if (shown.path != path) continue;
    shown.value = value;
    shown.text = format_value(*find_key(path), value);
  }
}

// Reads all layers and lays them over each other.
class Loader {
 public:
  Loader(ConfigInput input, const Backends& backends)
      : input_(std::move(input)), backends_(backends) {
    config_.input = input_;
  }

  Config load() {
    gather();
    convert();
    derive();
    check_config(values_, input_, backends_, config_);
    std::ranges::stable_sort(config_.problems, {}, [](const Problem& problem) {
      const auto& origin = problem.origin;
      return std::tie(origin.kind, origin.line, origin.column);
    });
    return std::move(config_);
  }

 private:
  void gather() {
    FileLayer file = file_layer(input_, config_.problems);
    config_.from_file = file.found;
    // What is missing because the file can't be read is not worth a complaint of its own.
    input_.needs_store = input_.needs_store && file.readable;
    input_.needs_broker = input_.needs_broker && file.readable;
    ConfigLayer written = std::move(file.layer);
    const auto environment =
        environment_layer(input_.environment, brokers_of(written), config_.problems);
    cover(written, environment);
    auto named = brokers_of(written);
    const std::string only = named.empty() ? "main" : named.front();
    cover(written, flag_layer(with_broker_name(input_.flags, only), config_.problems));
    layer_ = profile_layer(profile_of(written));
    cover(layer_, written);

    brokers_ = brokers_of(layer_);
    if (brokers_.empty()) brokers_.push_back("main");
    config_.settings.broker = brokers_.front();
    if (brokers_.size() > 1) refuse_second_broker();
  }

  void refuse_second_broker() {
    const std::string prefix = "brokers." + brokers_[1] + ".";
    const auto first = layer_.lower_bound(prefix);
    config_.problems.push_back(
        problem_at(first->second.origin, "brokers." + brokers_[1],
                   fmt::format("this version serves one broker, and there is \"{}\" already; "
                               "run one relay for each broker",
                               brokers_[0])));
  }

  void convert() {
    for (const auto& key : config_keys()) {
      const bool many = key.path.starts_with("brokers.");
      for (const auto& broker : brokers_) {
        convert_key(key, concrete_path(key.path, broker), broker == brokers_.front());
        if (!many) break;
      }
    }
  }

  void convert_key(const ConfigKey& key, const std::string& path, bool applies) {
    CheckedValue checked;
    checked.key = &key;
    const auto found = layer_.find(path);
    checked.node = found == layer_.end() ? default_node(key) : found->second;
    checked.good = convert_value(key, path, checked.node, checked.value, config_.problems);
    if (checked.good) {
      // What has no effect is not in force.
      if (applies && key.put != nullptr) {
        key.put(config_.settings, checked.value);
        config_.values.push_back(
            {path, format_value(key, checked.value), checked.node.origin, checked.value});
      }
    }
    values_.emplace(path, std::move(checked));
  }

  // Settings that follow from others.
  void derive() {
    using std::chrono::seconds;
    auto& settings = config_.settings;
    apply_profile(settings.profile, settings);
    auto& publisher = settings.publisher;
    if (publisher.source.empty()) {
      publisher.source = "/outbox-relay/" + uri_segment(settings.store.table);
      ConfigValue source;
      source.text = publisher.source;
      show(config_, concrete_path("brokers.*.source", settings.broker), source);
    }
    publisher.queue_max = settings.relay.in_flight_max;
    settings.relay.publish_timeout = publisher.publish_timeout;
    // A probe also waits for its row to be leased.
    settings.relay.breaker.probe_timeout = 2 * publisher.publish_timeout;
    // Where rows go on failing while the circuit is open, as in ADR-087, each relay has its own.
    if (settings.relay.breaker.while_open == WhileOpen::suspend) {
      settings.store.broker = settings.broker;
    }
    settings.loop.settle_timeout = publisher.publish_timeout + seconds{2};
    default_retention(config_, settings.store);
    const bool sqlite = scheme_of(settings.store.url) == "sqlite";
    settings.relay.drain_on_stop =
        settings.on_stop == "drain" || (settings.on_stop.empty() && sqlite);
  }

  ConfigInput input_;
  const Backends& backends_;
  ConfigLayer layer_;
  std::vector<std::string> brokers_;
  CheckedValues values_;
  Config config_;
};

}  // namespace

Config load_config(const ConfigInput& input, const Backends& backends) {
  return Loader(input, backends).load();
}

void default_retention(Config& config, const StoreSettings& store) {
  const std::string path = "retention.processed";
  const auto found = std::ranges::find(config.values, path, &EffectiveValue::path);
  if (found == config.values.end() || found->origin.kind != Origin::Kind::fallback) return;
  const ConfigKey& key = *find_key(path);
  ConfigValue value;
  std::vector<Problem> none;
  const auto node = store.foreign() ? scalar_node(Origin{}, "never") : default_node(key);
  convert_value(key, path, node, value, none);
  key.put(config.settings, value);
  show(config, path, value);
}

std::string describe(const std::vector<Problem>& problems) {
  std::string text = problems.size() == 1
                         ? "the configuration has a problem:\n"
                         : fmt::format("the configuration has {} problems:\n", problems.size());
  for (const auto& problem : problems) text += "  " + describe(problem) + "\n";
  return text;
}

}  // namespace outbox
