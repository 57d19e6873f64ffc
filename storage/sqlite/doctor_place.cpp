// The doctor's look at where a database is.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "storage/sqlite/doctor.h"
#include "storage/sqlite/doctor_checks.h"
#include "storage/sqlite/wal_index.h"

namespace outbox::sqlite {
namespace {

constexpr std::uint64_t kMebibyte = 1u << 20;
constexpr std::uint64_t kSpaceNeeded = 64 * kMebibyte;
constexpr std::uint64_t kSpaceWanted = 512 * kMebibyte;

constexpr auto kLookAgainAfter = std::chrono::milliseconds{50};
constexpr int kLooks = 20;

std::string shell_word(const std::string& text) {
  const bool plain = text.find_first_not_of(
                         "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                         "0123456789_-./:=,@%+") == std::string::npos;
  if (plain && !text.empty()) return text;
  std::string word = "'";
  for (const char letter : text) {
    if (letter == '\'') {
      word += "'\\''";
    } else {
      word += letter;
    }
  }
  return word + "'";
}

bool may(const std::string& path, int what) {
  return ::faccessat(AT_FDCWD, path.c_str(), what, AT_EACCESS) == 0;
}

void add_missing(const std::string& path, bool foreign, Findings& findings) {
  findings.push_back({.severity = Severity::error,
                      .code = "database_missing",
                      .what = fmt::format("There is no file {}.", path),
                      .why = "The relay waits for the application to create it, and delivers "
                             "nothing until then.",
                      .fix_kind = foreign ? FixKind::advice : FixKind::command,
                      .fix = foreign ? "Correct store.url, or let the application create it."
                                     : "outbox-relay init --apply",
                      .unreachable = true});
}

Finding unreachable_file(const std::string& path, int error_number) {
  return {.severity = Severity::error,
          .code = "database_not_reachable",
          .what = fmt::format("{} can't be reached: {}.", path, std::strerror(error_number)),
          .why = "The relay can't open it either.",
          .fix =
              "Check that the volume is mounted, and that this user may enter each folder on the "
              "way.",
          .unreachable = true};
}

Finding no_permission(const std::string& path, const std::string& what) {
  return {.severity = Severity::error,
          .code = "no_permission",
          .what = fmt::format("This user (uid {}, gid {}) may not {} {}.", ::geteuid(), ::getegid(),
                              what, path),
          .why =
              "The relay writes to the database, to its -wal and -shm files, and creates these "
              "beside it.",
          .fix_kind = FixKind::command,
          .fix = fmt::format("chgrp {} {} && chmod g+rw{} {}", ::getegid(), shell_word(path),
                             what.starts_with("create") ? "x" : "", shell_word(path)),
          .unreachable = true};
}

// Modes don't help where nobody may write.
bool is_read_only_volume(const std::string& path) {
  return ::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) != 0 && errno == EROFS;
}

Finding read_only_volume(const std::string& path) {
  return {.severity = Severity::error,
          .code = "read_only",
          .what = fmt::format("{} is on a volume that is mounted read-only.", path),
          .why =
              "The relay notes in the database what it has delivered; without that it refuses "
              "to send anything.",
          .fix =
              "Mount the volume for writing, in the relay's container, too. If the kernel made "
              "it read-only after errors, check the disk.",
          .unreachable = true};
}

bool check_permissions(const std::string& path, Findings& findings) {
  if (is_read_only_volume(path)) {
    findings.push_back(read_only_volume(path));
    return false;
  }
  const std::size_t before = findings.size();
  if (!may(path, R_OK)) {
    findings.push_back(no_permission(path, "read"));
  } else if (!may(path, W_OK)) {
    findings.push_back(no_permission(path, "write to"));
  }
  const std::string folder = directory_of(path);
  if (!may(folder, W_OK | X_OK)) {
    findings.push_back(no_permission(folder, "create files in"));
  }
  for (const char* suffix : {"-wal", "-shm"}) {
    const std::string file = path + suffix;
    if (identity_of(file) && !may(file, R_OK | W_OK)) {
      findings.push_back(no_permission(file, "read and write"));
    }
  }
  return findings.size() == before;
}

void check_space(const std::string& path, Findings& findings) {
  struct statvfs info {};
  if (::statvfs(path.c_str(), &info) != 0) return;
  const std::uint64_t free_bytes = std::uint64_t{info.f_bavail} * info.f_frsize;
  if (auto finding = judge_free_space(free_bytes, path)) findings.push_back(std::move(*finding));
}

std::string mebibytes(std::uint64_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / kMebibyte);
}

// Held at every look, and nothing was committed in between.
bool is_stuck(const std::string& path, const WalIndex& first) {
  for (int look = 1; look < kLooks; ++look) {
    std::this_thread::sleep_for(kLookAgainAfter);
    const auto index = read_wal_index(path);
    if (!index || !index->write_locked || index->changes != first.changes) return false;
  }
  return true;
}

}  // namespace

std::optional<Finding> judge_file_system(const FileSystem& file_system, const std::string& path) {
  if (!file_system.supported) {
    return Finding{.severity = Severity::error,
                   .code = "file_system",
                   .what = fmt::format("{} is on {}.", path, file_system.name),
                   .why =
                       "SQLite's write-ahead log needs shared memory and locks that hold; on a "
                       "network or user-space file system both may fail, and damage the "
                       "database. The relay refuses to work there.",
                   .fix =
                       "Move the database to a local file system (ext4, xfs, btrfs) that the "
                       "application and the relay mount both.",
                   .unreachable = true};
  }
  if (file_system.layered) {
    return Finding{.severity = Severity::warning,
                   .code = "file_system",
                   .what = fmt::format("{} is on overlayfs, a container's own layer.", path),
                   .why =
                       "It goes with the container, undelivered events included, and a relay in "
                       "another container can't see it.",
                   .fix = "Put the database on a volume that both containers mount."};
  }
  if (file_system.in_memory) {
    return Finding{.severity = Severity::information,
                   .code = "file_system",
                   .what = fmt::format("{} is on tmpfs, in memory.", path),
                   .why = "What was not delivered is lost with the machine or the Pod.",
                   .fix = "Put the database on a disk, unless that is meant."};
  }
  return std::nullopt;
}

std::optional<Finding> judge_free_space(std::uint64_t free_bytes, const std::string& path) {
  if (free_bytes >= kSpaceWanted) return std::nullopt;
  return Finding{.severity = free_bytes < kSpaceNeeded ? Severity::error : Severity::warning,
                 .code = "disk_space",
                 .what = fmt::format("The volume of {} has {} left.", path, mebibytes(free_bytes)),
                 .why =
                     "When it is full, the application can't commit and the relay can't note "
                     "what was delivered: such events go out again later.",
                 .fix = "Free some space, enlarge the volume, or let delivered rows be deleted."};
}

bool check_place(const StoreSettings& settings, Findings& findings) {
  const std::string path = path_of(settings.url);
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) {
      add_missing(path, settings.foreign(), findings);
    } else {
      findings.push_back(unreachable_file(path, errno));
    }
    return false;
  }
  if (!S_ISREG(info.st_mode)) {
    findings.push_back({.severity = Severity::error,
                        .code = "not_a_file",
                        .what = fmt::format("{} is not a file.", path),
                        .why = "An SQLite database is one.",
                        .fix = "Correct store.url.",
                        .unreachable = true});
    return false;
  }
  check_space(path, findings);
  const auto file_system = file_system_of(path);
  if (file_system) {
    if (auto finding = judge_file_system(*file_system, path)) {
      findings.push_back(std::move(*finding));
    }
    if (!file_system->supported) return false;
  }
  return check_permissions(path, findings);
}

void check_log(const StoreSettings& settings, Findings& findings) {
  const std::string path = path_of(settings.url);
  const auto index = read_wal_index(path);
  if (!index) return;
  if (index->write_locked && is_stuck(path, *index)) {
    findings.push_back(
        {.severity = Severity::error,
         .code = "write_lock_held",
         .what = fmt::format("Process {} has held the write lock for over a second without a "
                             "commit.",
                             describe_process(index->writer)),
         .why = "Nobody else can write meanwhile: the relay neither leases nor settles.",
         .fix = "Find out why that process has left a transaction open; ending it ends the lock."});
  }
  if (index->bytes_to_move() <= settings.wal_limit) return;
  const std::string what = fmt::format(
      "{} of the write-ahead log are not in the database yet, more than store.walLimit "
      "({}).",
      mebibytes(index->bytes_to_move()), mebibytes(settings.wal_limit));
  findings.push_back(
      {.severity = Severity::warning,
       .code = "wal_size",
       .what = index->held_back ? fmt::format("{} Process {} reads an old snapshot and holds it "
                                              "back.",
                                              what, describe_process(index->reader))
                                : what,
       .why = "The log grows until it can be moved, and every read takes longer.",
       .fix_kind = FixKind::sql,
       .fix = "PRAGMA wal_checkpoint(TRUNCATE);  -- after the reader has ended its transaction"});
}

}  // namespace outbox::sqlite
