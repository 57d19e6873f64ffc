#include "metrics/process_stats.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace outbox {

namespace {

struct DirectoryCloser {
  void operator()(DIR* directory) const { closedir(directory); }
};

double count_open_fds() {
  const std::unique_ptr<DIR, DirectoryCloser> directory(opendir("/proc/self/fd"));
  if (!directory) return 0;
  double entries = 0;
  while (readdir(directory.get()) != nullptr) ++entries;
  return entries - 3;  // ".", ".." and the directory itself
}

double boot_unix_seconds() {
  std::ifstream stat("/proc/stat");
  std::string word;
  double seconds = 0;
  while (stat >> word) {
    if (word == "btime" && stat >> seconds) return seconds;
  }
  return 0;
}

// Fields of /proc/self/stat, numbered as in proc(5).
constexpr std::size_t kFieldAfterName = 3;
constexpr std::size_t kFieldUserTicks = 14;
constexpr std::size_t kFieldSystemTicks = 15;
constexpr std::size_t kFieldStartTicks = 22;
constexpr std::size_t kFieldResidentPages = 24;

class SelfStat {
 public:
  SelfStat() {
    std::ifstream file("/proc/self/stat");
    std::string line;
    std::getline(file, line);
    // The name stands in parentheses and may itself hold spaces and parentheses.
    std::istringstream text(line.substr(line.rfind(')') + 1));
    for (std::string field; text >> field;) fields_.push_back(std::move(field));
  }

  double number(std::size_t field) const {
    const std::size_t at = field - kFieldAfterName;
    return at < fields_.size() ? std::strtod(fields_[at].c_str(), nullptr) : 0;
  }

 private:
  std::vector<std::string> fields_;
};

double ticks_per_second() { return static_cast<double>(sysconf(_SC_CLK_TCK)); }

}  // namespace

ProcessStats read_process_stats() {
  const SelfStat stat;
  ProcessStats stats;
  stats.cpu_seconds =
      (stat.number(kFieldUserTicks) + stat.number(kFieldSystemTicks)) / ticks_per_second();
  stats.resident_bytes =
      stat.number(kFieldResidentPages) * static_cast<double>(sysconf(_SC_PAGESIZE));
  stats.open_fds = count_open_fds();
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) stats.max_fds = static_cast<double>(limit.rlim_cur);
  return stats;
}

double read_process_start() {
  const double boot = boot_unix_seconds();
  return boot == 0 ? 0 : boot + SelfStat().number(kFieldStartTicks) / ticks_per_second();
}

}  // namespace outbox
