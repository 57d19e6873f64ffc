// A sign of life: a file that a process keeps locked until it ends, however it ends.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "storage/sqlite/location.h"

namespace outbox::sqlite {

// A descriptor that closes itself.
class FileHandle {
 public:
  FileHandle() = default;
  explicit FileHandle(int descriptor) : descriptor_(descriptor) {}
  FileHandle(FileHandle&& other) noexcept : descriptor_(other.release()) {}
  FileHandle& operator=(FileHandle&& other) noexcept;
  ~FileHandle();

  int get() const { return descriptor_; }
  bool open() const { return descriptor_ >= 0; }
  int release();

 private:
  int descriptor_ = -1;
};

// Our own. The lock belongs to the open file (fcntl's F_OFD_SETLK): no other descriptor's closing
// drops it, and the kernel drops it with the process.
class LockFile {
 public:
  // Creates and locks <database>-relay-<random>.lock, with the database's mode. If that can't be
  // done there is no sign of life, and others wait for the end of our leases.
  explicit LockFile(const std::string& database_path);
  // Leaves the file: whoever comes next sees by it that we are gone.
  ~LockFile() = default;
  LockFile(const LockFile&) = delete;
  LockFile& operator=(const LockFile&) = delete;

  bool held() const { return handle_.open(); }
  // Whether others still find it.
  bool in_place() const { return held() && identity_of(path_) == identity_; }
  const std::string& name() const { return name_; }
  FileIdentity identity() const { return identity_; }
  // After a clean end.
  void remove();

 private:
  std::string path_;
  std::string name_;
  FileIdentity identity_;
  FileHandle handle_;
};

// The lock of a dead process, obtained: proof that it is dead, for as long as this object lives.
class DeadLock {
 public:
  // Nothing unless the file is the one described and nobody holds its lock.
  static std::optional<DeadLock> obtain(const std::string& path, FileIdentity identity);
  void remove_file();

 private:
  DeadLock(std::string path, FileHandle handle)
      : path_(std::move(path)), handle_(std::move(handle)) {}
  std::string path_;
  FileHandle handle_;
};

// Whether the file is the one described and somebody holds its lock.
bool is_visibly_held(const std::string& path, FileIdentity identity);

}  // namespace outbox::sqlite
