#include "relay/app/live_relay.h"

#include <fmt/format.h>
#include <httplib.h>

#include <charconv>
#include <chrono>
#include <nlohmann/json.hpp>
#include <sstream>

namespace outbox {
namespace {

constexpr std::string_view kPrefix = "outbox_relay_";
constexpr int kPatienceSeconds = 2;

// Reads `name="value",...}` behind the opening brace; where it ends, or npos.
std::size_t read_labels(const std::string& line, std::size_t at,
                        std::map<std::string, std::string>& labels) {
  while (at < line.size() && line[at] != '}') {
    const std::size_t equals = line.find("=\"", at);
    if (equals == std::string::npos) return equals;
    const std::string name = line.substr(at, equals - at);
    std::string value;
    for (at = equals + 2; at < line.size() && line[at] != '"'; ++at) {
      if (line[at] == '\\' && at + 1 < line.size()) {
        ++at;
        value += line[at] == 'n' ? '\n' : line[at];
      } else {
        value += line[at];
      }
    }
    labels[name] = value;
    ++at;
    if (at < line.size() && line[at] == ',') ++at;
  }
  return at < line.size() ? at + 1 : std::string::npos;
}

std::optional<Sample> parse_sample(const std::string& line) {
  if (line.empty() || line[0] == '#') return std::nullopt;
  Sample sample;
  std::size_t at = line.find_first_of("{ ");
  if (at == std::string::npos) return std::nullopt;
  sample.name = line.substr(0, at);
  if (sample.name.starts_with(kPrefix)) sample.name.erase(0, kPrefix.size());
  if (line[at] == '{') at = read_labels(line, at + 1, sample.labels);
  if (at == std::string::npos) return std::nullopt;
  const std::size_t begin = line.find_first_not_of(' ', at);
  if (begin == std::string::npos) return std::nullopt;
  const char* end = line.data() + line.size();
  if (std::from_chars(line.data() + begin, end, sample.value).ec != std::errc{}) {
    return std::nullopt;
  }
  return sample;
}

std::string text_at(const nlohmann::json& body, const char* name) {
  const auto found = body.find(name);
  return found != body.end() && found->is_string() ? found->get<std::string>() : std::string{};
}

}  // namespace

std::string host_to_ask(const std::string& host) {
  if (host == "0.0.0.0") return "127.0.0.1";
  if (host == "::") return "::1";
  return host;
}

std::string url_of(const HostPort& listen) {
  return "http://" + format_address({host_to_ask(listen.host), listen.port});
}

std::vector<Sample> parse_metrics(const std::string& text) {
  std::vector<Sample> samples;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (auto sample = parse_sample(line)) samples.push_back(std::move(*sample));
  }
  return samples;
}

double LiveRelay::sum(const std::string& name, const std::string& label,
                      const std::string& value) const {
  double total = 0;
  for (const Sample& sample : samples) {
    if (sample.name != name) continue;
    const auto found = sample.labels.find(label);
    if (label.empty() || (found != sample.labels.end() && found->second == value)) {
      total += sample.value;
    }
  }
  return total;
}

bool LiveRelay::has(const std::string& name) const {
  for (const Sample& sample : samples) {
    if (sample.name == name) return true;
  }
  return false;
}

std::string LiveRelay::label(const std::string& name, const std::string& label) const {
  for (const Sample& sample : samples) {
    if (sample.name != name || sample.value == 0) continue;
    const auto found = sample.labels.find(label);
    if (found != sample.labels.end()) return found->second;
  }
  return {};
}

LiveRelay ask_relay(const std::string& url) {
  LiveRelay relay;
  httplib::Client client(url);
  if (!client.is_valid()) {
    relay.error = fmt::format("'{}' is no address such as http://127.0.0.1:9711", url);
    return relay;
  }
  client.set_connection_timeout(kPatienceSeconds);
  client.set_read_timeout(kPatienceSeconds);
  client.set_tcp_nodelay(true);
  const auto ready = client.Get("/readyz");
  if (!ready) {
    relay.error = fmt::format("no relay answers at {}", url);
    return relay;
  }
  const auto metrics = client.Get("/metrics");
  if (!metrics || metrics->status != 200) {
    relay.error = fmt::format("what answers at {} is no relay", url);
    return relay;
  }
  relay.answers = true;
  relay.ready = ready->status == 200;
  relay.asked_at = std::chrono::steady_clock::now();
  const auto body = nlohmann::json::parse(ready->body, nullptr, false);
  if (body.is_object()) {
    relay.state = text_at(body, "state");
    relay.reason = text_at(body, "reason");
  }
  relay.samples = parse_metrics(metrics->body);
  return relay;
}

}  // namespace outbox
