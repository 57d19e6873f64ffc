#include "relay/app/file_watch.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

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

// Links are made whole, and pipes are never closed.
bool FileWatch::is_new_file(const std::string& name) const {
  if (name == kKubernetesLink) return false;
  const fs::path file(path_);
  std::error_code ignored;
  // By another name, it is what the file links to.
  const fs::path made = name == file.filename() ? file : fs::canonical(file, ignored);
  const bool is_file = fs::symlink_status(made, ignored).type() == fs::file_type::regular;
  return is_file && fs::hard_link_count(made, ignored) == 1;
}

bool FileWatch::concerns(const std::string& name) const {
  return std::ranges::find(names_, name) != names_.end();
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
      // Without a name it tells of the folder itself, or that events were lost.
      const std::string name = event.len == 0 ? "" : buffer.data() + at + sizeof event;
      if (event.len == 0 || concerns(name)) {
        concerned = true;
        being_written_ = (event.mask & IN_CREATE) != 0 && is_new_file(name);
      }
      at += sizeof event + event.len;
    }
  }
  if (concerned) watch_folders();
  return concerned;
}

}  // namespace outbox
