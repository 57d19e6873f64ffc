#include "relay/app/config_reloader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace outbox {
namespace {

const std::string& text_of(const Config& config, const std::string& path) {
  static const std::string kNone;
  const auto found = std::ranges::find(config.values, path, &EffectiveValue::path);
  return found == config.values.end() ? kNone : found->text;
}

}  // namespace

ConfigReloader::ConfigReloader(const Config& config, Parts parts, Apply apply)
    : parts_(parts),
      apply_(std::move(apply)),
      input_(config.input),
      in_force_(config),
      watch_(config.input.file) {
  // A file that has gone is a mistake rather than a wish for the defaults.
  input_.file_required = input_.file_required || config.from_file;
  input_.again = true;
  // Without a file at the start there may never be one.
  if (config.from_file && !watch_.error().empty()) {
    parts_.log.warn("changes of the configuration file go unnoticed: send SIGHUP after each",
                    {{"file", input_.file}, {"error", watch_.error()}});
  }
}

void ConfigReloader::on_readable() {
  if (!watch_.take_events()) return;
  const bool being_written = watch_.being_written();
  if (!due_ || being_written || waits_for_writer_) {
    due_ = parts_.clock.now() + (being_written ? kWriting : kQuiet);
  }
  waits_for_writer_ = being_written;
}

std::optional<Duration> ConfigReloader::wait() const {
  if (!due_) return std::nullopt;
  return std::max(*due_ - parts_.clock.now(), Duration{0});
}

void ConfigReloader::on_time() {
  if (due_ && parts_.clock.now() >= *due_) read_again(false);
}

void ConfigReloader::reload() { read_again(true); }

void ConfigReloader::read_again(bool asked) {
  due_.reset();
  Config fresh = load_config(input_, parts_.backends);
  if (!fresh.usable()) return refuse(fresh.problems);
  input_.file_required = input_.file_required || fresh.from_file;
  ConfigChange change = take_over(in_force_, fresh);
  const bool mended = std::exchange(refused_, false);
  const bool news = asked || mended || !change.applied.empty() || !change.restarting.empty() ||
                    !restarting_.empty();
  in_force_ = std::move(change.in_force);
  if (!change.applied.empty()) apply_(in_force_.settings);
  parts_.metrics.on_config_reloaded(digest_of(in_force_));
  if (!news) return;
  tell(change);
  tell_agreeing(change);
  restarting_ = change.restarting;
  for (const auto& path : change.restarting) {
    parts_.log.warn("needs restart", {{"path", path},
                                      {"in_force", text_of(in_force_, path)},
                                      {"in_file", text_of(fresh, path)}});
  }
  for (const auto& warning : in_force_.warnings) parts_.log.warn(warning);
}

void ConfigReloader::refuse(const std::vector<Problem>& problems) {
  refused_ = true;
  parts_.metrics.on_config_refused();
  parts_.log.error("configuration refused, the settings stay as they were",
                   {{"file", input_.file}, {"problems", problems.size()}});
  for (const auto& problem : problems) {
    parts_.log.error("configuration problem", {{"problem", describe(problem)}});
  }
}

void ConfigReloader::tell(const ConfigChange& change) {
  const std::string digest = digest_of(in_force_);
  std::vector<LogField> fields = {{"file", input_.file}, {"config_sha256", digest}};
  for (const auto& path : change.applied) fields.emplace_back(path, text_of(in_force_, path));
  const char* sentence = !change.applied.empty() ? "configuration taken over"
                         : change.restarting.empty()
                             ? "configuration read again, nothing to take over"
                             : "configuration read again, its changes need a restart";
  parts_.log.write(LogLevel::info, sentence, fields);
}

// What waited for a restart and was taken back.
void ConfigReloader::tell_agreeing(const ConfigChange& change) {
  for (const auto& path : restarting_) {
    if (std::ranges::find(change.restarting, path) != change.restarting.end()) continue;
    parts_.log.info("no restart needed any more: the file agrees with what is in force",
                    {{"path", path}, {"in_force", text_of(in_force_, path)}});
  }
}

}  // namespace outbox
