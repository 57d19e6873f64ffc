#include "storage/sqlite/location.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "relay/backends.h"

namespace outbox::sqlite {
namespace {

struct Magic {
  std::uint32_t magic;
  const char* name;
};

// WAL needs shared memory between processes and POSIX locks that hold: local file systems of Linux.
constexpr std::uint32_t kTmpfs = 0x01021994;
constexpr std::uint32_t kOverlayfs = 0x794c7630;
constexpr std::array kSupported{Magic{0xef53, "ext2/ext3/ext4"}, Magic{0x58465342, "xfs"},
                                Magic{0x9123683e, "btrfs"},      Magic{kTmpfs, "tmpfs"},
                                Magic{kOverlayfs, "overlayfs"},  Magic{0x2fc12fc1, "zfs"},
                                Magic{0xf2f52010, "f2fs"}};

// Names for those that people try.
constexpr std::array kKnown{Magic{0x6969, "nfs"},      Magic{0xff534d42, "cifs"},
                            Magic{0xfe534d42, "smb2"}, Magic{0x01021997, "9p"},
                            Magic{0x65735546, "fuse"}, Magic{0x00c36400, "ceph"},
                            Magic{0x47504653, "gpfs"}, Magic{0x4d44, "vfat"},
                            Magic{0x5346544e, "ntfs"}, Magic{0x0bd00bd0, "lustre"}};

std::string file_system_problem(const std::string& path) {
  const auto found = file_system_of(path);
  if (!found) {
    return fmt::format("cannot tell the file system of {}: {}", path, std::strerror(errno));
  }
  if (found->supported) return {};
  return fmt::format(
      "{} is on an unsupported file system ({}): SQLite's write-ahead log needs shared memory and "
      "reliable locks; move the database to a local one (ext4, xfs, btrfs, tmpfs, overlayfs, zfs, "
      "f2fs)",
      path, found->name);
}

bool may_write(const std::string& path) {
  return ::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) == 0;
}

}  // namespace

std::string path_of(const std::string& url) {
  const std::string scheme = "sqlite:";
  std::string path = url.rfind(scheme, 0) == 0 ? url.substr(scheme.size()) : std::string{};
  if (path.rfind("//", 0) == 0) {
    path.erase(0, 2);
    if (path.empty() || path.front() != '/') {
      throw SettingsError(fmt::format(
          "store.url: '{}' names a host; write sqlite:///absolute/path or sqlite:relative/path",
          url));
    }
  }
  if (path.empty() || path.back() == '/' || path.front() == ':') {
    throw SettingsError(fmt::format(
        "store.url: '{}' names no file; write sqlite:///absolute/path or sqlite:relative/path",
        url));
  }
  if (path.find('?') != std::string::npos || path.find('\0') != std::string::npos) {
    throw SettingsError(fmt::format("store.url: '{}' carries options; SQLite takes none", url));
  }
  // Else a name such as "file:x" would be taken for a URI.
  return path.front() == '/' ? path : "./" + path;
}

std::optional<FileIdentity> identity_of(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return std::nullopt;
  return FileIdentity{info.st_dev, info.st_ino};
}

std::string fingerprint_of(const std::string& path) {
  std::string result;
  for (const char* suffix : {"", "-wal"}) {
    struct stat info {};
    if (::stat((path + suffix).c_str(), &info) != 0) {
      result += fmt::format("{};", errno);
      continue;
    }
    result += fmt::format("{}:{}:{}:{}.{}:{}.{}:{};", info.st_dev, info.st_ino, info.st_size,
                          info.st_mtim.tv_sec, info.st_mtim.tv_nsec, info.st_ctim.tv_sec,
                          info.st_ctim.tv_nsec, info.st_mode);
  }
  return result;
}

FileSystem file_system_of_magic(std::uint32_t magic) {
  const auto same = [magic](const Magic& one) { return one.magic == magic; };
  const auto supported = std::find_if(kSupported.begin(), kSupported.end(), same);
  FileSystem result{.magic = magic,
                    .name = fmt::format("type {:#x}", magic),
                    .supported = supported != kSupported.end(),
                    .layered = magic == kOverlayfs,
                    .in_memory = magic == kTmpfs};
  if (result.supported) result.name = supported->name;
  const auto known = std::find_if(kKnown.begin(), kKnown.end(), same);
  if (known != kKnown.end()) result.name = known->name;
  return result;
}

std::optional<FileSystem> file_system_of(const std::string& path) {
  struct statfs info {};
  if (::statfs(path.c_str(), &info) != 0) return std::nullopt;
  return file_system_of_magic(static_cast<std::uint32_t>(info.f_type));
}

std::string location_problem(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) {
      return fmt::format(
          "there is no database {} yet: the application creates it, or outbox-relay init --apply",
          path);
    }
    return fmt::format("cannot reach the database {}: {}", path, std::strerror(errno));
  }
  if (!S_ISREG(info.st_mode)) return fmt::format("{} is not a file", path);
  if (std::string problem = file_system_problem(path); !problem.empty()) return problem;
  return write_problem(path);
}

std::string write_problem(const std::string& path) {
  if (!may_write(path)) {
    return fmt::format(
        "the relay (uid {}, gid {}) may not write to {}: {}; make the file and its folder writable "
        "for it, e.g. with mode 0660 and a common group",
        ::geteuid(), ::getegid(), path, std::strerror(errno));
  }
  return {};
}

std::string directory_of(const std::string& path) {
  std::error_code ignored;
  auto real = std::filesystem::weakly_canonical(path, ignored);
  if (ignored || real.empty()) real = std::filesystem::absolute(path, ignored);
  const auto parent = real.parent_path();
  return parent.empty() ? "." : parent.string();
}

std::string file_name_of(const std::string& path) {
  std::error_code ignored;
  const auto real = std::filesystem::weakly_canonical(path, ignored);
  return (ignored || real.empty() ? std::filesystem::path(path) : real).filename().string();
}

}  // namespace outbox::sqlite
