#include "publishers/wire/changed_files.h"

#include <sys/stat.h>

#include <chrono>
#include <utility>

namespace outbox {

namespace {

// The file system's clock ticks coarsely, so that a second change may carry the time of the first.
// A file as young as this is therefore read again the next time.
constexpr std::chrono::seconds kFreshFor{1};

bool is_fresh(const timespec& changed) {
  using std::chrono::system_clock;
  const auto age = system_clock::now().time_since_epoch() - std::chrono::seconds{changed.tv_sec} -
                   std::chrono::nanoseconds{changed.tv_nsec};
  return age < kFreshFor && age > -kFreshFor;
}

std::vector<std::string> without_empty(std::vector<std::string> paths) {
  std::erase(paths, std::string{});
  return paths;
}

}  // namespace

ChangedFiles::ChangedFiles(std::vector<std::string> paths)
    : paths_(without_empty(std::move(paths))) {}

bool ChangedFiles::changed() {
  seen_.clear();
  seen_fresh_ = false;
  for (const std::string& path : paths_) {
    struct stat status {};
    Stamp stamp;
    if (::stat(path.c_str(), &status) == 0) {
      stamp = {status.st_ctim.tv_sec, status.st_ctim.tv_nsec, status.st_ino,
               static_cast<std::uint64_t>(status.st_size)};
      seen_fresh_ = seen_fresh_ || is_fresh(status.st_ctim);
    }
    seen_.push_back(stamp);
  }
  return !accepted_ || seen_ != *accepted_;
}

void ChangedFiles::accept() {
  accepted_.reset();
  if (!seen_fresh_) accepted_ = seen_;
}

}  // namespace outbox
