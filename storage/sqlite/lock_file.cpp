#include "storage/sqlite/lock_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <random>
#include <utility>

namespace outbox::sqlite {
namespace {

constexpr mode_t kModeMask = 0666;

enum class LockResult { obtained, held, unsupported };

LockResult try_lock(int descriptor, short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  if (::fcntl(descriptor, F_OFD_SETLK, &lock) == 0) return LockResult::obtained;
  return errno == EAGAIN || errno == EACCES ? LockResult::held : LockResult::unsupported;
}

// The file, if it is the one described. Reading is enough to test a lock, and closing a file opened
// so wakes nobody who watches the folder for the ends of relays.
FileHandle open_same(const std::string& path, FileIdentity identity) {
  FileHandle handle(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info {};
  if (!handle.open() || ::fstat(handle.get(), &info) != 0) return {};
  if (FileIdentity{info.st_dev, info.st_ino} != identity) return {};
  return handle;
}

std::string random_name() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

// Who may write to the database may test the lock: hence the same mode, whatever the umask.
mode_t mode_of(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? info.st_mode & kModeMask : 0;
}

}  // namespace

FileHandle& FileHandle::operator=(FileHandle&& other) noexcept {
  if (this == &other) return *this;
  if (open()) ::close(descriptor_);
  descriptor_ = other.release();
  return *this;
}

FileHandle::~FileHandle() {
  if (open()) ::close(descriptor_);
}

int FileHandle::release() { return std::exchange(descriptor_, -1); }

LockFile::LockFile(const std::string& database_path) {
  name_ = fmt::format("{}-relay-{}.lock", file_name_of(database_path), random_name());
  path_ = directory_of(database_path) + "/" + name_;
  FileHandle handle(
      ::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR));
  struct stat info {};
  if (!handle.open()) return;
  ::fchmod(handle.get(), mode_of(database_path) | S_IRUSR | S_IWUSR);
  if (::fstat(handle.get(), &info) != 0 ||
      try_lock(handle.get(), F_WRLCK) != LockResult::obtained) {
    ::unlink(path_.c_str());
    return;
  }
  identity_ = {info.st_dev, info.st_ino};
  handle_ = std::move(handle);
}

void LockFile::remove() {
  if (in_place()) ::unlink(path_.c_str());
}

std::optional<DeadLock> DeadLock::obtain(const std::string& path, FileIdentity identity) {
  FileHandle handle = open_same(path, identity);
  if (!handle.open() || try_lock(handle.get(), F_RDLCK) != LockResult::obtained) {
    return std::nullopt;
  }
  return DeadLock(path, std::move(handle));
}

void DeadLock::remove_file() { ::unlink(path_.c_str()); }

bool is_visibly_held(const std::string& path, FileIdentity identity) {
  const FileHandle handle = open_same(path, identity);
  return handle.open() && try_lock(handle.get(), F_RDLCK) == LockResult::held;
}

}  // namespace outbox::sqlite
