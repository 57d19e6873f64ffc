#include "relay/app/file_watch.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

namespace outbox {
namespace {

namespace fs = std::filesystem;

// Kubernetes links it to the folder that holds the present version of a mounted ConfigMap.
constexpr const char* kKubernetesLink = "..data";

// Not each write: a file is worth reading when its writer has closed it.
constexpr std::uint32_t kEvents =
    IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_CREATE | IN_DELETE | IN_ONLYDIR;

std::string folder_of(const fs::path& file) {
  const auto folder = file.parent_path();
  return folder.empty() ? "." : folder.string();
}

}  // namespace

FileWatch::FileWatch(std::string path)
    : path_(std::move(path)),
      watch_(inotify_init1(IN_CLOEXEC | IN_NONBLOCK)),
      error_(watch_.get() < 0 ? std::strerror(errno) : "") {
  watch_folders();
}

void FileWatch::watch_folders() {
  if (watch_.get() < 0) return;
  error_.clear();
  const fs::path file(path_);
  names_ = {file.filename().string(), kKubernetesLink};
  // A folder that is watched already stays so.
  if (inotify_add_watch(watch_.get(), folder_of(file).c_str(), kEvents) < 0) {
    error_ = std::strerror(errno);
  }
  std::error_code error;
  const auto target = fs::canonical(file, error);
  if (error) return;
  names_.push_back(target.filename().string());
  inotify_add_watch(watch_.get(), folder_of(target).c_str(), kEvents);
}

bool FileWatch::take_events() {
  constexpr std::size_t kRoom = 4096;
  alignas(inotify_event) std::array<char, kRoom> buffer{};
  bool concerned = false;
  while (true) {
    const ssize_t length = read(watch_.get(), buffer.data(), buffer.size());
    if (length <= 0) break;
    for (std::size_t at = 0; at < static_cast<std::size_t>(length);) {
      inotify_event event{};
      std::memcpy(&event, buffer.data() + at, sizeof event);
      const char* name = buffer.data() + at + sizeof event;
      // Without a name it tells of the folder itself, or that events were lost.
      concerned = concerned || event.len == 0 ||
                  std::ranges::find(names_, std::string(name)) != names_.end();
      at += sizeof event + event.len;
    }
  }
  if (concerned) watch_folders();
  return concerned;
}

}  // namespace outbox
