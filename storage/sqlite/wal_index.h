// What the shared-memory file beside a database tells about its write-ahead log.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace outbox::sqlite {

struct WalIndex {
  std::uint64_t page_size = 0;
  std::uint64_t frames = 0;   // in the log
  std::uint64_t moved = 0;    // of them already in the database
  std::uint32_t changes = 0;  // another number after each commit

  bool write_locked = false;  // somebody is in a write transaction
  pid_t writer = 0;           // who; 0 if that can't be seen from here
  // A reader whose snapshot keeps the log from being moved.
  bool held_back = false;
  pid_t reader = 0;

  // Bytes that are not in the database yet.
  std::uint64_t bytes_to_move() const;
};

// Nothing if nobody has the database open in WAL mode, or it can't be read. Only looks. Must not be
// called while this process has the database open: closing the file ends SQLite's locks on it.
std::optional<WalIndex> read_wal_index(const std::string& database_path);

// "1234 (python3)"; "another container or user" if the process can't be seen.
std::string describe_process(pid_t process);

}  // namespace outbox::sqlite
