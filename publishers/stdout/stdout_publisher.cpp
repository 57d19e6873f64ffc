#include "publishers/stdout/stdout_publisher.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <system_error>

#include "publishers/stdout/event_line.h"
#include "publishers/wire/quiet_thread.h"

namespace outbox {

namespace {

std::vector<SettingDefect> check_settings(const PublisherSettings& settings) {
  std::vector<SettingDefect> defects;
  if (settings.url != "stdout:" && settings.url != "stdout://") {
    defects.push_back({"url", "has something behind stdout:, which takes nothing"});
  }
  if (settings.publish_timeout <= Duration::zero()) {
    defects.push_back({"publishTimeout", "must be longer than 0"});
  }
  if (settings.queue_max == 0) {
    defects.push_back({"connections", "the publisher's queue must hold at least one event"});
  }
  return defects;
}

bool is_regular_file(int descriptor) {
  struct stat status {};
  return ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
}

// Rounded up, so that a wait does not end before its time.
int milliseconds_until(Time deadline, Time now) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now).count();
  return static_cast<int>(std::clamp<long long>(left, 0, INT_MAX));
}

}  // namespace

StdoutPublisher::StdoutPublisher(int descriptor, const PublisherSettings& settings,
                                 const Clock& clock, ReceiptSink& sink)
    : descriptor_(descriptor),
      regular_file_(is_regular_file(descriptor)),
      publish_timeout_(settings.publish_timeout),
      clock_(clock),
      queue_(settings.queue_max, sink),
      thread_(start_quiet_thread([this] { work(); })) {}

StdoutPublisher::~StdoutPublisher() {
  queue_.close();
  thread_.join();
}

std::size_t StdoutPublisher::submit(std::span<const Publication> publications) {
  return queue_.submit(publications);
}

void StdoutPublisher::work() {
  Publication publication;
  while (queue_.take(publication)) queue_.report(publish(publication));
}

Receipt StdoutPublisher::publish(const Publication& publication) {
  Receipt receipt;
  receipt.ticket = publication.ticket;
  const EventLine line = event_line(publication);
  if (!line.error.empty()) {
    receipt.outcome = Outcome::refused;
    receipt.reason = line.error;
    return receipt;
  }
  const Time start = clock_.now();
  if (start > publication.start_by) {
    receipt.reason = "too late to start within the lease";
    return receipt;
  }
  receipt.sent = true;
  receipt.outcome = Outcome::transport;
  const Time deadline = start + publish_timeout_;
  receipt.reason = finish_broken_line(deadline);
  if (receipt.reason.empty()) {
    Written written = write_all(line.text, deadline);
    receipt.reason = std::move(written.error);
    receipt.outcome_unknown = written.bytes > 0 && !receipt.reason.empty();
    if (receipt.outcome_unknown) broken_line_ = line.text.substr(written.bytes);
  }
  if (receipt.reason.empty()) receipt.outcome = Outcome::confirmed;
  receipt.took = clock_.now() - start;
  return receipt;
}

std::string StdoutPublisher::finish_broken_line(Time deadline) {
  if (broken_line_.empty()) return {};
  Written written = write_all(broken_line_, deadline);
  broken_line_.erase(0, written.bytes);
  return std::move(written.error);
}

// False once the deadline has passed, even if a reader that trickles has made room again.
bool StdoutPublisher::wait_for_reader(Time deadline) const {
  while (true) {
    const Time now = clock_.now();
    if (now >= deadline) return false;
    pollfd writable{descriptor_, POLLOUT, 0};
    const int ready = ::poll(&writable, 1, milliseconds_until(deadline, now));
    if (ready > 0 || (ready < 0 && errno != EINTR)) return true;
  }
}

// A pipe that polls writable takes PIPE_BUF bytes without blocking, so longer lines go in pieces of
// that size. A regular file never makes a writer wait for a reader.
StdoutPublisher::Written StdoutPublisher::write_all(std::string_view bytes, Time deadline) {
  Written written;
  while (written.bytes < bytes.size()) {
    std::size_t piece = bytes.size() - written.bytes;
    if (!regular_file_) {
      piece = std::min<std::size_t>(piece, PIPE_BUF);
      if (!wait_for_reader(deadline)) {
        written.error = fmt::format("the reader of the standard output did not take it within {}",
                                    std::chrono::duration<double>(publish_timeout_));
        return written;
      }
    }
    const ssize_t count = ::write(descriptor_, bytes.data() + written.bytes, piece);
    if (count >= 0) {
      written.bytes += static_cast<std::size_t>(count);
    } else if (errno != EINTR && errno != EAGAIN) {
      written.error = fmt::format("the standard output can't be written: {}",
                                  std::system_category().message(errno));
      return written;
    }
  }
  return written;
}

void add_stdout_publisher(Backends& backends) {
  PublisherBackend backend;
  backend.check = check_settings;
  backend.open = [](const PublisherSettings& settings, const Clock& clock, ReceiptSink& sink) {
    const auto defects = check_settings(settings);
    if (!defects.empty()) throw SettingsError(describe(defects));
    return std::unique_ptr<Publisher>(
        std::make_unique<StdoutPublisher>(STDOUT_FILENO, settings, clock, sink));
  };
  backends.publishers["stdout"] = std::move(backend);
}

}  // namespace outbox
