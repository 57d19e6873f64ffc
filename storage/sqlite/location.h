// Where a database file is, and whether it is still the same one.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace outbox::sqlite {

// The path of `sqlite:///abs/path` or `sqlite:relative`. Throws SettingsError.
std::string path_of(const std::string& url);

// What makes two files the same one.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const FileIdentity&) const = default;
};

// Nothing if there is no such file.
std::optional<FileIdentity> identity_of(const std::string& path);

// Everything that changes when a file is written, replaced or made accessible. Equal texts: nothing
// happened in between.
std::string fingerprint_of(const std::string& path);

// The kind of file system that a file is on, by the number that the kernel gives it.
struct FileSystem {
  std::uint32_t magic = 0;
  std::string name;
  bool supported = false;  // SQLite's write-ahead log works on it
  bool layered = false;    // a container's own layer: gone with the container
  bool in_memory = false;  // gone with the machine
};
FileSystem file_system_of_magic(std::uint32_t magic);
// Nothing if it can't be told.
std::optional<FileSystem> file_system_of(const std::string& path);

// Why the file can't hold an outbox (no file, not writable, unsupported file system); empty if it
// can. Opens nothing: closing a second descriptor of the file would drop SQLite's locks.
std::string location_problem(const std::string& path);

// Why the relay may not write to the file; empty if it may.
std::string write_problem(const std::string& path);

// The directory that the file is really in, links resolved. Its -wal and -shm are there, too.
std::string directory_of(const std::string& path);
std::string file_name_of(const std::string& path);

}  // namespace outbox::sqlite
