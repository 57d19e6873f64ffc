#include "storage/sqlite/wal_index.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <fstream>

#include "storage/sqlite/lock_file.h"

namespace outbox::sqlite {
namespace {

// The layout of the file is part of SQLite's documented format (walformat.html), in the machine's
// own byte order.
constexpr std::size_t kChangeAt = 8;
constexpr std::size_t kInitialisedAt = 12;
constexpr std::size_t kPageSizeAt = 14;
constexpr std::size_t kFramesAt = 16;
constexpr std::size_t kMovedAt = 96;
constexpr std::size_t kReadMarksAt = 100;
constexpr std::size_t kHeaderBytes = 136;
constexpr std::size_t kFrameHeaderBytes = 24;
constexpr std::uint32_t kNoMark = 0xffffffff;

constexpr off_t kWriteLock = 120;
constexpr off_t kReadLocks = 123;
constexpr std::size_t kReaders = 5;

struct Holder {
  bool held = false;
  pid_t process = 0;
};

// Asks who holds a lock, without taking it.
Holder holder_of(int descriptor, off_t byte) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  if (::fcntl(descriptor, F_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) return {};
  return {true, lock.l_pid > 0 ? lock.l_pid : 0};
}

template <class Number>
Number number_at(const std::array<char, kHeaderBytes>& header, std::size_t at) {
  Number number = 0;
  std::memcpy(&number, header.data() + at, sizeof(number));
  return number;
}

}  // namespace

std::uint64_t WalIndex::bytes_to_move() const {
  return frames > moved ? (frames - moved) * (page_size + kFrameHeaderBytes) : 0;
}

std::optional<WalIndex> read_wal_index(const std::string& database_path) {
  const FileHandle file(::open((database_path + "-shm").c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, kHeaderBytes> header{};
  if (!file.open() || ::pread(file.get(), header.data(), header.size(), 0) != kHeaderBytes) {
    return std::nullopt;
  }
  if (header[kInitialisedAt] == 0) return std::nullopt;
  WalIndex index;
  const auto page_size = number_at<std::uint16_t>(header, kPageSizeAt);
  index.page_size = page_size == 1 ? 65536 : page_size;
  index.changes = number_at<std::uint32_t>(header, kChangeAt);
  index.frames = number_at<std::uint32_t>(header, kFramesAt);
  index.moved = number_at<std::uint32_t>(header, kMovedAt);
  const Holder writer = holder_of(file.get(), kWriteLock);
  index.write_locked = writer.held;
  index.writer = writer.process;
  for (std::size_t reader = 0; reader < kReaders; ++reader) {
    // The first one reads the database as it was when the log was empty: nothing may be moved.
    const auto mark =
        reader == 0 ? index.moved : number_at<std::uint32_t>(header, kReadMarksAt + 4 * reader);
    if (mark == kNoMark || mark >= index.frames) continue;
    const Holder holder = holder_of(file.get(), kReadLocks + static_cast<off_t>(reader));
    if (!holder.held) continue;
    index.held_back = true;
    index.reader = holder.process;
  }
  return index;
}

std::string describe_process(pid_t process) {
  if (process <= 0) return "one of another container or user";
  std::ifstream file(fmt::format("/proc/{}/comm", process));
  std::string name;
  std::getline(file, name);
  return name.empty() ? fmt::format("{}", process) : fmt::format("{} ({})", process, name);
}

}  // namespace outbox::sqlite
