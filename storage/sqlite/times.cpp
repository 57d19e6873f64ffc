#include "storage/sqlite/times.h"

#include <time.h>

#include <fstream>

namespace outbox::sqlite {
namespace {

std::string read_boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id.empty() ? "unknown" : id;
}

}  // namespace

std::int64_t Clocks::boot_number() const {
  // FNV-1a: the same in each version of the program, unlike std::hash.
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char letter : boot_id) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3ULL;
  }
  return static_cast<std::int64_t>(hash >> 1);
}

Clocks system_clocks(const Clock& boot) {
  return {.boot = &boot, .wall = system_wall_time, .boot_id = read_boot_id()};
}

Time BootClock::now() const {
  timespec time{};
  ::clock_gettime(CLOCK_BOOTTIME, &time);
  return Time(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
}

}  // namespace outbox::sqlite
