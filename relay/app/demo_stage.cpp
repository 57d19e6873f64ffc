#include "relay/app/demo_stage.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <system_error>

namespace outbox {

namespace {

constexpr std::chrono::milliseconds kLookInterval{250};
constexpr std::chrono::seconds kSampleInterval{1};
constexpr std::chrono::seconds kRateWindow{2};
constexpr std::chrono::seconds kStopPatience{15};
constexpr std::size_t kSamplesMax = 300;
constexpr std::size_t kLogMax = 50;
constexpr std::size_t kBurstMax = 20;  // events in one go, after a pause of this program

}  // namespace

std::string demo_configuration(const DemoSettings& settings, const std::string& store_url,
                               std::uint16_t receiver_port) {
  return fmt::format(
      "store:\n"
      "  url: \"{}\"\n"
      "brokers:\n"
      "  main:\n"
      "    url: http://127.0.0.1:{}/events\n"
      "    publishTimeout: {}s\n"
      "breaker: {{ breakDuration: {}s }}\n"
      "metrics: {{ sampleInterval: {}s }}\n"
      "http: {{ listen: \"127.0.0.1:0\" }}\n"
      "log: {{ format: json }}\n",
      store_url, receiver_port, settings.publish_timeout.count(), settings.break_duration.count(),
      settings.sample_interval.count());
}

std::uint64_t waiting_in(const Backlog& backlog) {
  return backlog.pending + backlog.failed + backlog.leased;
}

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "outbox-relay-demo-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) {
    throw std::system_error(errno, std::generic_category(), "no temporary folder " + name);
  }
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;  // a folder left in the temporary place is nobody's loss
  std::filesystem::remove_all(path_, ignored);
}

DemoStage::DemoStage(const DemoOptions& options, const DemoSettings& settings)
    : outbox_(folder_.path()),
      rate_(std::clamp<std::uint32_t>(options.rate, 1, 200)),
      began_(DemoClock::now()),
      writer_time_(began_),
      circuit_since_(began_) {
  const auto file = folder_.path() / "relay.yaml";
  std::ofstream(file) << demo_configuration(settings, outbox_.url(), receiver_.port());
  const std::string program = options.program.empty()
                                  ? std::filesystem::read_symlink("/proc/self/exe").string()
                                  : options.program;
  relay_ = std::make_unique<DemoProcess>(
      std::vector<std::string>{program, "run", "--config", file.string()});
}

void DemoStage::advance() {
  write_due();
  read_log();
  const auto now = DemoClock::now();
  if (now - last_look_ >= kLookInterval) {
    last_look_ = now;
    look();
  }
  if (const auto code = relay_->exit_code()) {
    const std::string last = view_.log.empty() ? "it said nothing" : view_.log.back();
    throw std::runtime_error(fmt::format("the relay ended with {}: {}", *code, last));
  }
}

void DemoStage::write_due() {
  const auto now = DemoClock::now();
  const auto step =
      std::chrono::duration_cast<DemoClock::duration>(std::chrono::duration<double>(1 / rate_));
  if (!writing_ || now - writer_time_ > step * kBurstMax) writer_time_ = now;
  for (; writing_ && writer_time_ + step <= now; writer_time_ += step) {
    const std::string id = outbox_.next_id();
    if (poison_) receiver_.refuse_event(id);
    poison_ = false;
    outbox_.write(id);
  }
}

void DemoStage::look() {
  const auto now = DemoClock::now();
  view_.elapsed = now - began_;
  view_.written = outbox_.written().size();
  view_.mood = receiver_.mood();
  view_.receiver = receiver_.tally();
  const std::string circuit_before = view_.relay.circuit;
  const RelayNumbers numbers = http_port_ == 0 ? RelayNumbers{} : ask_relay(http_port_);
  if (numbers.answered) {
    view_.relay = numbers;
  } else {
    view_.relay.answered = view_.relay.ready = false;
  }
  if (view_.relay.circuit != circuit_before) circuit_since_ = now;
  view_.circuit_for = now - circuit_since_;
  // Busy for a moment is no reason to stop showing what was known.
  if (auto backlog = outbox_.desk().backlog(); backlog.ok()) view_.backlog = backlog.value;
  if (view_.backlog.dead_lettered == 0) {
    view_.dead_letters.clear();
  } else if (auto dead = outbox_.desk().dead_letters({}); dead.ok()) {
    view_.dead_letters = std::move(dead.value);
  }
  remember_rates(now);
}

void DemoStage::remember_rates(DemoClock::time_point now) {
  marks_.push_back({now, view_.written, view_.receiver.received});
  while (now - marks_.front().time > kRateWindow) marks_.pop_front();
  const std::chrono::duration<double> window = now - marks_.front().time;
  if (window.count() > 0) {
    view_.write_rate = static_cast<double>(view_.written - marks_.front().written) / window.count();
    view_.receive_rate =
        static_cast<double>(view_.receiver.received - marks_.front().received) / window.count();
  }
  const std::uint64_t waiting = waiting_in(view_.backlog);
  view_.waiting_peak = std::max(view_.waiting_peak, waiting);
  if (now - last_sample_ >= kSampleInterval) {
    last_sample_ = now;
    view_.waiting.push_back(waiting);
    if (view_.waiting.size() > kSamplesMax) view_.waiting.erase(view_.waiting.begin());
  }
}

void DemoStage::read_log() {
  for (const std::string& line : relay_->lines()) {
    LogLine read = read_log_line(line);
    if (read.http_port != 0) http_port_ = read.http_port;
    view_.log.push_back(std::move(read.text));
    if (view_.log.size() > kLogMax) view_.log.pop_front();
  }
}

std::uint64_t DemoStage::redrive() {
  receiver_.accept_all();
  const auto moved = outbox_.desk().redrive({}, "demonstration: the receiver was mended", {});
  if (!moved.ok()) throw std::runtime_error("redrive: " + moved.error);
  return moved.value;
}

int DemoStage::stop_relay() {
  relay_->stop();
  const auto deadline = DemoClock::now() + kStopPatience;
  while (!relay_->exit_code() && DemoClock::now() < deadline) {
    read_log();
    poll(nullptr, 0, 20);
  }
  read_log();
  view_.written = outbox_.written().size();
  view_.receiver = receiver_.tally();
  if (auto backlog = outbox_.desk().backlog(); backlog.ok()) view_.backlog = backlog.value;
  return relay_->exit_code().value_or(-1);
}

std::uint64_t DemoStage::delivered_unchanged() const {
  const auto accepted = receiver_.accepted();
  return static_cast<std::uint64_t>(
      std::count_if(outbox_.written().begin(), outbox_.written().end(), [&](const auto& event) {
        const auto found = accepted.find(event.first);
        return found != accepted.end() && found->second == event.second;
      }));
}

}  // namespace outbox
