#include "storage/sqlite/wal_watcher.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "storage/sqlite/location.h"

namespace outbox::sqlite {
namespace {

constexpr std::uint32_t kDirectoryEvents = IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE |
                                           IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;
// How long after a ring the next may follow: events that pile up meanwhile are one hint, those of
// the turn that the ring has caused among them.
constexpr auto kQuietTime = std::chrono::milliseconds{1};
// How often a missing folder is looked for.
constexpr auto kRetryTime = std::chrono::seconds{1};

bool is_lock_name(const std::string& name, const std::string& database_name) {
  const std::string start = database_name + "-relay-";
  const std::string end = ".lock";
  return name.size() > start.size() + end.size() && name.rfind(start, 0) == 0 &&
         name.compare(name.size() - end.size(), end.size(), end) == 0;
}

timespec to_timespec(std::chrono::nanoseconds time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  return {.tv_sec = seconds.count(), .tv_nsec = (time - seconds).count()};
}

}  // namespace

WalWatcher::WalWatcher(const std::string& database_path, Bell& bell)
    : database_path_(database_path),
      bell_(bell),
      inotify_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)),
      stop_(::eventfd(0, EFD_CLOEXEC)) {
  if (inotify_.open() && stop_.open()) thread_ = std::thread([this] { run(); });
}

WalWatcher::~WalWatcher() {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  // Writing to an event counter fails only if it is full, and then it is signalled already.
  [[maybe_unused]] const auto written = ::write(stop_.get(), &one, sizeof(one));
  thread_.join();
}

void WalWatcher::run() {
  while (true) {
    if (directory_watch_ < 0) watch_directory();
    if (directory_watch_ >= 0) watch_database();
    std::array<pollfd, 2> waits{pollfd{inotify_.get(), POLLIN, 0}, pollfd{stop_.get(), POLLIN, 0}};
    const auto retry = to_timespec(kRetryTime);
    const int ready =
        ::ppoll(waits.data(), waits.size(), directory_watch_ < 0 ? &retry : nullptr, nullptr);
    if (waits[1].revents != 0) return;
    if (ready > 0 && read_events()) bell_.hint();
    if (stop_requested_within(kQuietTime)) return;
  }
}

bool WalWatcher::stop_requested_within(std::chrono::nanoseconds wait) const {
  pollfd stop{stop_.get(), POLLIN, 0};
  const auto time = to_timespec(wait);
  return ::ppoll(&stop, 1, &time, nullptr) > 0;
}

// What happened before it is watched is not told by any event: hence the hint, here and below.
void WalWatcher::watch_directory() {
  directory_ = directory_of(database_path_);
  database_name_ = file_name_of(database_path_);
  wal_name_ = database_name_ + "-wal";
  directory_watch_ = ::inotify_add_watch(inotify_.get(), directory_.c_str(), kDirectoryEvents);
  if (directory_watch_ < 0) return;
  std::error_code error;
  std::filesystem::directory_iterator entry(directory_, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (is_lock_name(name, database_name_)) watch_lock(name);
  }
  peer_changed_ = true;
  bell_.hint();
}

void WalWatcher::watch_database() {
  if (database_watch_ < 0) database_watch_ = watch_file(database_name_, IN_ATTRIB);
  if (wal_watch_ >= 0) return;
  wal_watch_ = watch_file(wal_name_, IN_MODIFY | IN_ONESHOT);
  if (wal_watch_ >= 0) bell_.hint();
}

// A relay that dies lets go of its lock file, which closes it.
void WalWatcher::watch_lock(const std::string& name) {
  const int watch = watch_file(name, IN_CLOSE_WRITE);
  if (watch >= 0) lock_watches_.insert(watch);
}

int WalWatcher::watch_file(const std::string& name, std::uint32_t events) {
  return ::inotify_add_watch(inotify_.get(), (directory_ + "/" + name).c_str(), events);
}

void WalWatcher::forget_watches() {
  lock_watches_.insert({directory_watch_, database_watch_, wal_watch_});
  for (const int watch : lock_watches_) ::inotify_rm_watch(inotify_.get(), watch);
  lock_watches_.clear();
  directory_watch_ = database_watch_ = wal_watch_ = -1;
}

// Empties the queue, else poll() would return at once for ever. True if the relay should look.
bool WalWatcher::read_events() {
  alignas(inotify_event) std::array<char, 16384> buffer;
  bool interesting = false;
  while (true) {
    const ssize_t length = ::read(inotify_.get(), buffer.data(), buffer.size());
    if (length <= 0) return interesting;
    for (std::size_t i = 0; i + sizeof(inotify_event) <= static_cast<std::size_t>(length);) {
      inotify_event event{};
      std::memcpy(&event, buffer.data() + i, sizeof(event));
      const std::string name = event.len > 0 ? buffer.data() + i + sizeof(event) : "";
      interesting = handle(event.wd, event.mask, name) || interesting;
      i += sizeof(event) + event.len;
    }
  }
}

bool WalWatcher::handle(int watch, std::uint32_t mask, const std::string& name) {
  const bool ended = (mask & IN_IGNORED) != 0;
  if ((mask & IN_Q_OVERFLOW) != 0) {
    peer_changed_ = true;
    return true;
  }
  if (watch == wal_watch_ || watch == database_watch_) {
    if (ended) (watch == wal_watch_ ? wal_watch_ : database_watch_) = -1;
    return true;
  }
  if (lock_watches_.contains(watch)) {
    if (ended) lock_watches_.erase(watch);
    peer_changed_ = true;
    return true;
  }
  return watch == directory_watch_ && handle_entry(mask, name);
}

// Something was put into the folder or taken out of it, or is the folder itself.
bool WalWatcher::handle_entry(std::uint32_t mask, const std::string& name) {
  if ((mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED)) != 0) {
    forget_watches();
    return true;
  }
  if (is_lock_name(name, database_name_)) {
    if ((mask & (IN_CREATE | IN_MOVED_TO)) != 0) watch_lock(name);
    peer_changed_ = true;
    return true;
  }
  // Under the same name there may be another file now.
  if (name == wal_name_) wal_watch_ = -1;
  if (name == database_name_) database_watch_ = -1;
  return name == wal_name_ || name == database_name_;
}

}  // namespace outbox::sqlite
